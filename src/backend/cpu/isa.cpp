// Chooses the instruction set at start.
