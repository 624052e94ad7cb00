# libFuzzer targets. The program is built with g++, and libFuzzer belongs to clang: a fuzz target and the
# modules that it needs are therefore compiled once more, by clang++ with the sanitizers.
# Each module names its targets in tests/<module>/fuzz.cmake.

option(TRIREME_FUZZ "Build the fuzz targets where clang++ has libFuzzer" ON)
if(NOT TRIREME_FUZZ)
  return()
endif()
set(TRIREME_FUZZ_SECONDS 3 CACHE STRING "Seconds that each fuzz target runs in the test suite")

set(fuzz_flags -std=c++20 -g1 -fno-omit-frame-pointer -fno-sanitize-recover=all
  -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/tests)
set(TRIREME_FUZZ_COMPILER "")
find_program(CLANGXX NAMES clang++ clang++-14 clang++-15 clang++-16)
if(CLANGXX)
  file(WRITE ${CMAKE_BINARY_DIR}/fuzz/probe.cpp
    "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n")
  execute_process(
    COMMAND ${CLANGXX} -fsanitize=fuzzer,address,undefined probe.cpp -o probe
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT failed)
    set(TRIREME_FUZZ_COMPILER ${CLANGXX})
  endif()
endif()

# Modules that are compiled without optimisation: with it clang takes a minute longer, and their one target, which
# reads whole scripts, tries twice as many in its few seconds.
set(fuzz_plain_modules "config|megatron|script")

# Compiles one source with the fuzzing flags, once however many targets ask for it; sets `object`.
function(trireme_fuzz_object source)
  string(REPLACE ${CMAKE_BINARY_DIR}/fuzz/ "" relative ${source})
  string(REPLACE ${PROJECT_SOURCE_DIR}/ "" relative ${relative})
  set(object ${CMAKE_BINARY_DIR}/fuzz/${relative}.o)
  set(object ${object} PARENT_SCOPE)
  get_property(known GLOBAL PROPERTY trireme_fuzz_objects)
  if(object IN_LIST known)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY trireme_fuzz_objects ${object})
  set(level -O1)
  if(relative MATCHES "/(${fuzz_plain_modules})[_/]")
    set(level -O0)
  endif()
  get_filename_component(folder ${object} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d
    COMMAND ${CCACHE} ${TRIREME_FUZZ_COMPILER} ${fuzz_flags} ${level}
      -fsanitize=fuzzer-no-link,address,undefined -MD -MF ${object}.d -c ${source} -o ${object}
    COMMENT "Fuzz: ${relative}" VERBATIM)
endfunction()

# trireme_fuzz_module(<module>): sets `sources` to what compiles all files of a module: those that may share
# their internal names a dozen together, as trireme_together does, the others one by one.
function(trireme_fuzz_module module)
  get_property(sources GLOBAL PROPERTY trireme_fuzz_${module})
  if(NOT sources)
    get_target_property(apart trireme_${module} TRIREME_APART)
    file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${module}/*.cpp)
    set(together "")
    foreach(file ${files})
      get_filename_component(name ${file} NAME)
      if(apart STREQUAL "all" OR name IN_LIST apart)
        list(APPEND sources ${file})
      else()
        list(APPEND together "#include \"${file}\"\n")
      endif()
    endforeach()
    list(LENGTH together count)
    foreach(first RANGE 0 ${count} 12)
      if(first LESS count)
        list(SUBLIST together ${first} 12 batch)
        string(JOIN "" text ${batch})
        set(joined ${CMAKE_BINARY_DIR}/fuzz/joined/${module}_${first}.cpp)
        file(GENERATE OUTPUT ${joined} CONTENT "${text}")
        list(APPEND sources ${joined})
      endif()
    endforeach()
    set_property(GLOBAL PROPERTY trireme_fuzz_${module} ${sources})
  endif()
  set(sources ${sources} PARENT_SCOPE)
endfunction()

# trireme_fuzzer(<name> <source> [modules, files under src/ and -l flags...] [EXCEPT <files>...]): builds
# fuzz_<name> from <source>, the named files and all files of the named modules (`base` is always there) but for
# those EXCEPT names, which must be APART in their modules, and runs it for a few seconds as the test fuzz_<name>
# on the corpus that <source> seeds itself (tests/fuzz.h).
# Without clang++ the test is reported as skipped.
function(trireme_fuzzer name source)
  if(NOT TRIREME_FUZZ_COMPILER)
    add_test(NAME fuzz_${name} COMMAND sh -c
      "echo 'skipped: needs clang++ with libFuzzer (Debian: clang, libclang-rt-14-dev)'; exit 77")
    set_tests_properties(fuzz_${name} PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 fuzzer "" "" "EXCEPT")
  list(TRANSFORM fuzzer_EXCEPT PREPEND ${PROJECT_SOURCE_DIR}/src/)
  set(libraries -lfmt -lxxhash -pthread)
  get_filename_component(all ${source} ABSOLUTE)
  foreach(part base ${fuzzer_UNPARSED_ARGUMENTS})
    if(part MATCHES "^-")
      list(APPEND libraries ${part})
    elseif(part MATCHES "[.]cpp$")
      list(APPEND all ${PROJECT_SOURCE_DIR}/src/${part})
    else()
      trireme_fuzz_module(${part})
      list(APPEND all ${sources})
    endif()
  endforeach()
  if(fuzzer_EXCEPT)
    list(REMOVE_ITEM all ${fuzzer_EXCEPT})
  endif()
  set(objects "")
  foreach(file ${all})
    trireme_fuzz_object(${file})
    list(APPEND objects ${object})
  endforeach()
  set(program ${CMAKE_BINARY_DIR}/fuzz/fuzz_${name})
  add_custom_command(OUTPUT ${program} DEPENDS ${objects}
    COMMAND ${TRIREME_FUZZ_COMPILER} -fsanitize=fuzzer,address,undefined ${objects} ${libraries}
      -o ${program}
    COMMENT "Fuzz: linking fuzz_${name}" VERBATIM)
  add_custom_target(fuzz_${name} ALL DEPENDS ${program})
  set(corpus ${CMAKE_BINARY_DIR}/fuzz/corpus/${name})
  file(MAKE_DIRECTORY ${corpus})
  add_test(NAME fuzz_${name} COMMAND ${program} ${corpus} -max_total_time=${TRIREME_FUZZ_SECONDS}
    -timeout=10 -rss_limit_mb=2048 -max_len=65536 -verbosity=0 -print_final_stats=1
    -artifact_prefix=${CMAKE_BINARY_DIR}/fuzz/crash_${name}_)
  set_tests_properties(fuzz_${name} PROPERTIES LABELS fast)
endfunction()

file(GLOB fuzz_lists CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/fuzz.cmake)
foreach(list ${fuzz_lists})
  include(${list})
endforeach()
