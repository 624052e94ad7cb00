// placeholder until the first kernel lands
