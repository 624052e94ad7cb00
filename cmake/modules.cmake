# Functions that build a folder as a module (a library) and its tests as one program.

add_library(trireme_flags INTERFACE)
# g++ 12 has false positives of -Wrestrict on concatenated strings.
target_compile_options(trireme_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -Wno-restrict)
# Warnings are errors only for the compiler that ./test installs; other versions may have additional warnings.
set(known_compiler OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.2 AND
    CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.3)
  set(known_compiler ON)
endif()
option(TRIREME_WERROR "Take warnings for errors" ${known_compiler})
if(TRIREME_WERROR AND NOT TRIREME_SANITIZE)  # sanitizers cause false positives
  target_compile_options(trireme_flags INTERFACE -Werror)
endif()
# Messages and debug information name files from the root of the source tree; ccache makes paths relative.
file(RELATIVE_PATH trireme_relative_source ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
target_compile_options(trireme_flags INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=
  -ffile-prefix-map=${trireme_relative_source}/=)
target_include_directories(trireme_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(TRIREME_ASSERTIONS)
  target_compile_definitions(trireme_flags INTERFACE TRIREME_ASSERTIONS=1 _GLIBCXX_ASSERTIONS=1)
endif()
if(TRIREME_SANITIZE)
  target_compile_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all
    -Wno-maybe-uninitialized)  # false positives in the standard library, only with sanitizers
  if(TRIREME_SANITIZE MATCHES undefined)
    # Checks overflow, shifts, bounds, conversions, divisions and values of enumerations and bool. Checks at
    # each access (null, alignment, type) are disabled: they double the compile time, and AddressSanitizer
    # finds most of these errors too.
    target_compile_options(trireme_flags INTERFACE
      -fno-sanitize=null,alignment,vptr,object-size,pointer-overflow,return,nonnull-attribute,returns-nonnull-attribute)
  endif()
  if(TRIREME_SANITIZE MATCHES address)
    # Calls instead of inlined checks reduce the compile time by a third.
    target_compile_options(trireme_flags INTERFACE
      $<$<CXX_COMPILER_ID:GNU>:SHELL:--param asan-instrumentation-with-call-threshold=0>)
  endif()
  target_link_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE})
  # Coverage callbacks for fuzzed modules (tests/fuzz); in other programs they are no-ops.
  set(trireme_coverage -fsanitize-coverage=trace-pc,trace-cmp)
  add_library(trireme_no_coverage STATIC ${PROJECT_SOURCE_DIR}/tests/fuzz/no_coverage.cpp)
  target_link_libraries(trireme_flags INTERFACE trireme_no_coverage)
endif()

option(TRIREME_TOGETHER "Compile the files of a module and of its tests a dozen at a time" ON)

# trireme_together(<target> <apart> <sources>...): compiles most files of a module, or of its tests, in unity builds,
# because parsing the same headers takes most of the compile time. The files of a unity build share their internal
# names; if two of them define the same name, rename it or put one of the files in <apart>. Without TRIREME_TOGETHER
# each file is compiled separately and without precompiled headers, which shows missing includes and is faster after a
# change of a single file.
function(trireme_together target apart)
  if(NOT TRIREME_TOGETHER OR apart STREQUAL "all")
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  # The compiler takes an included file for a header, and warns about class members of internal types there.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME)
    if(name IN_LIST apart)
      set_source_files_properties(${file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# trireme_precompiled(<target> <arguments of target_precompile_headers>...): uses precompiled headers, with the
# settings that ccache needs to cache such objects.
function(trireme_precompiled target)
  target_precompile_headers(${target} ${ARGN})
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  if(CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endfunction()

# Headers of the standard library and of {fmt}, precompiled once for all modules: parsing them took half of the compile
# time of files that are compiled separately. A target may have another level of optimization, but not -O0.
set(trireme_standard_headers <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstdint>
  <cstring> <exception> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <ranges>
  <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <variant> <vector>
  <fmt/format.h>)
if(TRIREME_TOGETHER)
  foreach(kind standard json)
    add_library(trireme_${kind}_headers OBJECT ${PROJECT_SOURCE_DIR}/cmake/headers.cpp)
    target_link_libraries(trireme_${kind}_headers PRIVATE trireme_flags fmt::fmt)
  endforeach()
  trireme_precompiled(trireme_standard_headers PRIVATE ${trireme_standard_headers})
  trireme_precompiled(trireme_json_headers PRIVATE ${trireme_standard_headers} <nlohmann/json.hpp>)
endif()

# trireme_use_headers(<target> standard|json|none): compiles the target with these precompiled headers; json adds
# nlohmann's JSON to the standard ones.
function(trireme_use_headers target kind)
  if(TRIREME_TOGETHER AND NOT kind STREQUAL "none")
    trireme_precompiled(${target} REUSE_FROM trireme_${kind}_headers)
    # g++ 12 has false positives on concatenated strings of a precompiled <string>.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endfunction()

# The table of modules for scripts/check-includes, written while src/CMakeLists.txt is processed.
set(trireme_module_table ${CMAKE_BINARY_DIR}/modules.txt)
file(WRITE ${trireme_module_table} "")

# trireme_module(<folder> [PRECOMPILED standard|json|none] [PARTS <folders>...] [LINKS <targets>...]
# [HEADERS <headers>...] [APART <files>...]): builds all .cpp files of src/<folder> and of its PARTS, except main.cpp, as
# the library trireme_<name>. LINKS are the modules and packages that it may use; modules must be declared earlier, and
# they determine its layer. HEADERS are its public headers, which other modules may include. APART are files that define
# internal names of other files of the module ("all": every file); see trireme_together. PRECOMPILED: which precompiled
# headers it uses, by default standard; see trireme_use_headers.
function(trireme_module folder)
  cmake_parse_arguments(PARSE_ARGV 1 module "" "PRECOMPILED" "PARTS;LINKS;HEADERS;APART")
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
  # -Wswitch-enum: a switch must name all values of an enumeration, so an unhandled new value is an error.
  # -Wnull-dereference is not used: it reports only lines of <streambuf> and of nlohmann's JSON.
  target_compile_options(trireme_${name} PRIVATE -Wshadow -Wswitch-enum)
  trireme_together(trireme_${name} "${module_APART}" ${sources})
  if(NOT module_PRECOMPILED)
    set(module_PRECOMPILED standard)
  endif()
  trireme_use_headers(trireme_${name} ${module_PRECOMPILED})

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

# trireme_include_exception(<file> <header> <reason>): allows an include that the table forbids. An exception
# that is no longer needed is an error.
function(trireme_include_exception file header reason)
  file(APPEND ${trireme_module_table} "exception ${file} ${header} ${reason}\n")
endfunction()

# Tests compute little themselves, so compile time matters more, most of all with sanitizers.
set(trireme_test_level -O1)
if(TRIREME_SANITIZE)
  set(trireme_test_level -O0)
endif()

# Where ./test looks for results. Concurrent runs of one program need different names.
cmake_path(GET CMAKE_BINARY_DIR FILENAME trireme_test_results)
set(trireme_test_results --gtest_output=xml:${PROJECT_SOURCE_DIR}/build/test-results/${trireme_test_results})

# Ranks of a job wait for each other thousands of times. If other tests compute on the same cores, each wait lasts
# until their time slice ends, and the job takes four times as long. Tests that compute therefore run with nice.
find_program(TRIREME_NICE nice)
set(trireme_nice "")
if(TRIREME_NICE)
  set(trireme_nice ${TRIREME_NICE} -n 19)
endif()

# trireme_tests(<folder> [extra libraries...] [APART <files>...]): builds all *_test.cpp files of tests/<folder> as one
# program. Test suites whose name begins with "Slow" have the label "slow", those that begin with "Long" the label
# "long", which only ./test long runs, and all others "fast". APART are files that are compiled separately: see
# trireme_together.
function(trireme_tests folder)
  cmake_parse_arguments(PARSE_ARGV 1 tests "" "" "APART")
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cpp)
  if(NOT sources)
    message(FATAL_ERROR "tests/${folder} has no *_test.cpp")
  endif()
  add_executable(test_${name} ${sources})
  # Tests of a part of a module link the whole module.
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
# fast tests of tests/<folder>, or those that match the filter, except those that match the patterns, also run
# as <name>_sanitized with the label "sanitized".
# The target `sanitized` builds only the programs of that label.
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
