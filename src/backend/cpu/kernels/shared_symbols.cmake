# Fails if objects that were compiled for one instruction set define symbols that the linker may share
# with other objects: it could keep the copy for the widest set, and older processors would run it.
# Arguments: NM, OBJECTS (a list), ISA (the namespace whose symbols are this set's own).
execute_process(COMMAND ${NM} --defined-only ${OBJECTS} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" shared "${symbols}")
string(LENGTH ${ISA} length)
list(FILTER shared EXCLUDE REGEX "7trireme3cpu${length}${ISA}|DW\\.ref\\.")
if(shared)
  list(JOIN shared "\n" text)
  message(FATAL_ERROR "kernels for ${ISA} define symbols outside their namespace:\n${text}")
endif()
