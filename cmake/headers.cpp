// Owns the precompiled headers that all modules use (cmake/modules.cmake).
