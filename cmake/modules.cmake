# Functions that turn a folder into a module (a library) and its tests into one program.

add_library(trireme_flags INTERFACE)
# g++ 12 reports -Wrestrict falsely on concatenated strings.
target_compile_options(trireme_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -Wno-restrict)
# What the compiler that ./test installs is known to find nothing in is an error; others may know more.
set(known_compiler OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.2 AND
    CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.3)
  set(known_compiler ON)
endif()
option(TRIREME_WERROR "Take warnings for errors" ${known_compiler})
if(TRIREME_WERROR AND NOT TRIREME_SANITIZE)  # with sanitizers it reports more, and falsely
  target_compile_options(trireme_flags INTERFACE -Werror)
endif()
# Neither messages nor debug information show where the tree lies.
target_compile_options(trireme_flags INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_include_directories(trireme_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(TRIREME_ASSERTIONS)
  target_compile_definitions(trireme_flags INTERFACE TRIREME_ASSERTIONS=1 _GLIBCXX_ASSERTIONS=1)
endif()
if(TRIREME_SANITIZE)
  target_compile_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all
    -Wno-maybe-uninitialized)  # false reports inside the standard library, only with sanitizers
  if(TRIREME_SANITIZE MATCHES undefined)
    # Checked are overflow, shifts, bounds, conversions, divisions and values of enumerations and bool. What
    # would be asked at each access (null, alignment, type) doubles the time of the compiler, and most of it
    # AddressSanitizer finds too.
    target_compile_options(trireme_flags INTERFACE
      -fno-sanitize=null,alignment,vptr,object-size,pointer-overflow,return,nonnull-attribute,returns-nonnull-attribute)
  endif()
  if(TRIREME_SANITIZE MATCHES address)
    # Checks as calls instead of inlined: a third less to compile.
    target_compile_options(trireme_flags INTERFACE
      $<$<CXX_COMPILER_ID:GNU>:SHELL:--param asan-instrumentation-with-call-threshold=0>)
  endif()
  target_link_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE})
  # What fuzzed modules are compiled with (tests/fuzz); in other programs the calls lead nowhere.
  set(trireme_coverage -fsanitize-coverage=trace-pc,trace-cmp)
  add_library(trireme_no_coverage STATIC ${PROJECT_SOURCE_DIR}/tests/fuzz/no_coverage.cpp)
  target_link_libraries(trireme_flags INTERFACE trireme_no_coverage)
endif()

option(TRIREME_TOGETHER "Compile the files of a module and of its tests a dozen at a time" ON)

# trireme_together(<target> <apart> <sources>...): reads most files of a module, or of its tests, as a few large
# ones, since parsing the same headers again takes most of the compiler's time. Files that are read together share
# their internal names, and a name that two of them define is an error: rename it, or put one of the files in
# <apart>. Without TRIREME_TOGETHER each file is compiled alone, which shows an include that it lacks, and takes
# less time after a change of one file.
function(trireme_together target apart)
  if(NOT TRIREME_TOGETHER OR apart STREQUAL "all")
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  # An included file is taken for a header, whose classes should not have fields of internal types.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME)
    if(name IN_LIST apart)
      set_source_files_properties(${file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# The table of modules that scripts/check-includes reads: written while src/CMakeLists.txt is read.
set(trireme_module_table ${CMAKE_BINARY_DIR}/modules.txt)
file(WRITE ${trireme_module_table} "")

# trireme_module(<folder> [PARTS <folders>...] [LINKS <targets>...] [HEADERS <headers>...] [APART <files>...]): all .cpp
# files of src/<folder> and of its PARTS, but main.cpp, as the library trireme_<name>, linked to the modules and packages
# that it may use. A module links only modules that were declared earlier, and its layer follows from them.
# HEADERS are its public headers: those that other modules may include. APART are the files whose internal
# names occur in other files of the module too ("all" for every file): see trireme_together.
function(trireme_module folder)
  cmake_parse_arguments(PARSE_ARGV 1 module "" "" "PARTS;LINKS;HEADERS;APART")
  string(REPLACE "/" "_" name ${folder})
  set(globs ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  foreach(part ${module_PARTS})
    list(APPEND globs ${PROJECT_SOURCE_DIR}/src/${folder}/${part}/*.cpp)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  list(FILTER sources EXCLUDE REGEX "/main[.]cpp$")
  if(module_UNPARSED_ARGUMENTS OR NOT sources)
    message(FATAL_ERROR "module ${folder}: needs sources, and knows no '${module_UNPARSED_ARGUMENTS}'")
  endif()
  add_library(trireme_${name} STATIC ${sources})
  target_link_libraries(trireme_${name} PUBLIC trireme_flags ${module_LINKS})
  # A switch over an enumeration names all of it, so that a new value is an error where it has no answer.
  # -Wnull-dereference is left out: it reports lines of <streambuf> and of nlohmann's JSON, and none of ours.
  target_compile_options(trireme_${name} PRIVATE -Wshadow -Wswitch-enum)
  trireme_together(trireme_${name} "${module_APART}" ${sources})

  set(uses "")
  set(layer 0)
  list(FILTER module_LINKS INCLUDE REGEX "^trireme_")
  foreach(library ${module_LINKS})
    if(NOT TARGET ${library})
      message(FATAL_ERROR "module ${folder} links ${library}, which is not declared earlier in src/CMakeLists.txt")
    endif()
    get_target_property(below ${library} TRIREME_LAYER)
    if(NOT below LESS layer)
      math(EXPR layer "${below} + 1")
    endif()
    get_target_property(used ${library} TRIREME_FOLDER)
    list(APPEND uses ${used})
  endforeach()
  set_target_properties(trireme_${name} PROPERTIES TRIREME_LAYER ${layer} TRIREME_FOLDER ${folder})
  list(JOIN uses " " uses)
  list(JOIN module_HEADERS " " headers)
  file(APPEND ${trireme_module_table} "module ${folder}\nlayer ${layer}\nuses ${uses}\nheaders ${headers}\n")
endfunction()

# trireme_include_exception(<file> <header> <reason>): an include that the table forbids and that stays
# for now. One that is no longer needed is an error.
function(trireme_include_exception file header reason)
  file(APPEND ${trireme_module_table} "exception ${file} ${header} ${reason}\n")
endfunction()

# trireme_precompiled(<target> <arguments of target_precompile_headers>...): ccache keeps such objects only
# if it is told to trust the compiler about the header.
function(trireme_precompiled target)
  target_precompile_headers(${target} ${ARGN})
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  if(CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CCACHE}")
  endif()
endfunction()

# Tests compute little themselves, and with sanitizers the compiler's time counts most.
set(trireme_test_level -O1)
if(TRIREME_SANITIZE)
  set(trireme_test_level -O0)
endif()

# Where ./test looks for results. Runs of one program, side by side, would take the same name by themselves.
cmake_path(GET CMAKE_BINARY_DIR FILENAME trireme_test_results)
set(trireme_test_results --gtest_output=xml:${PROJECT_SOURCE_DIR}/build/test-results/${trireme_test_results})

# Jobs of several ranks wait for each other thousands of times, and each time whatever computes next to them would
# first use up its turn: four times as long in all. So what computes makes way.
find_program(TRIREME_NICE nice)
set(trireme_nice "")
if(TRIREME_NICE)
  set(trireme_nice ${TRIREME_NICE} -n 19)
endif()

# trireme_tests(<folder> [extra libraries...] [APART <files>...]): all *_test.cpp files of tests/<folder> as one
# program. Test suites whose name begins with "Slow" run under the label "slow", those whose name begins with "Long"
# under "long", which only ./test long runs, all others under "fast". APART are files that keep their names for
# themselves: see trireme_together.
function(trireme_tests folder)
  cmake_parse_arguments(PARSE_ARGV 1 tests "" "" "APART")
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cpp)
  if(NOT sources)
    message(FATAL_ERROR "tests/${folder} has no *_test.cpp")
  endif()
  add_executable(test_${name} ${sources})
  # The tests of a part of a module link the module.
  set(library trireme_${name})
  if(NOT TARGET ${library})
    cmake_path(GET folder PARENT_PATH parent)
    string(REPLACE "/" "_" library trireme_${parent})
  endif()
  target_link_libraries(test_${name} PRIVATE ${library} ${tests_UNPARSED_ARGUMENTS} GTest::gmock GTest::gtest_main)
  trireme_together(test_${name} "${tests_APART}" ${sources})
  target_compile_options(test_${name} PRIVATE ${trireme_test_level})
  trireme_precompiled(test_${name} REUSE_FROM test_headers)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(test_${name} PRIVATE
    TRIREME_TESTS="${CMAKE_CURRENT_SOURCE_DIR}"
    TRIREME_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/${folder}/data"
    TRIREME_SHARED_DATA="${PROJECT_SOURCE_DIR}/../shared/data")
  add_test(NAME ${name} COMMAND ${trireme_nice} $<TARGET_FILE:test_${name}> --gtest_filter=-Slow*:Long* --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS fast)
  foreach(prefix Slow Long)
    execute_process(COMMAND grep -lE "^TEST(_F|_P)?\\(${prefix}|^INSTANTIATE.*${prefix}" ${sources} OUTPUT_VARIABLE found)
    if(found)
      string(TOLOWER ${prefix} label)
      add_test(NAME ${name}_${label} COMMAND ${trireme_nice} $<TARGET_FILE:test_${name}>
        --gtest_filter=${prefix}*:*/${prefix}* --gtest_brief=1 ${trireme_test_results}/${name}_${label}.xml)
      set_tests_properties(${name}_${label} PROPERTIES LABELS ${label})
    endif()
  endforeach()
endfunction()

# trireme_sanitized(<sanitizer> <folder> [filter] [EXCEPT <patterns>...]): in a build with that sanitizer, the
# fast tests of tests/<folder>, or those that the filter names, but for those that the patterns name, also run
# as <name>_sanitized under the label "sanitized".
# The target `sanitized` builds the programs of that label and nothing else.
add_custom_target(sanitized)
function(trireme_sanitized sanitizer folder)
  if(NOT TRIREME_SANITIZE MATCHES ${sanitizer})
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 sanitized "" "" "EXCEPT")
  list(JOIN sanitized_EXCEPT ":" except)
  string(REPLACE "/" "_" name ${folder})
  add_dependencies(sanitized test_${name})
  add_test(NAME ${name}_sanitized COMMAND test_${name}
    "--gtest_filter=${sanitized_UNPARSED_ARGUMENTS}-Slow*:Long*:${except}" --gtest_brief=1)
  set_tests_properties(${name}_sanitized PROPERTIES LABELS sanitized)
endfunction()
