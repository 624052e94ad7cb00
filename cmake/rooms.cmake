# Functions that turn a folder into a room (a library) and its tests into one program.

add_library(trireme_flags INTERFACE)
# g++ 12 reports -Wrestrict falsely on concatenated strings.
target_compile_options(trireme_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -Wno-restrict)
target_include_directories(trireme_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(TRIREME_ASSERTIONS)
  target_compile_definitions(trireme_flags INTERFACE TRIREME_ASSERTIONS=1 _GLIBCXX_ASSERTIONS=1)
endif()
if(TRIREME_SANITIZE)
  target_compile_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all
    -Wno-maybe-uninitialized)  # false reports inside the standard library, only with sanitizers
  target_link_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()

# trireme_room(<folder> [libraries...]): all .cpp files of src/<folder> as library trireme_<name>,
# linked to the rooms and packages it may use. A room names only rooms of its floor or below.
function(trireme_room folder)
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  if(NOT sources)
    add_library(trireme_${name} INTERFACE)
    target_link_libraries(trireme_${name} INTERFACE trireme_flags ${ARGN})
    return()
  endif()
  add_library(trireme_${name} STATIC ${sources})
  target_link_libraries(trireme_${name} PUBLIC trireme_flags ${ARGN})
endfunction()

# trireme_tests(<folder> [extra libraries...]): all *_test.cpp files of tests/<folder> as one program.
# Test suites whose name begins with "Slow" run under the label "slow", all others under "fast".
function(trireme_tests folder)
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources})
  target_link_libraries(test_${name} PRIVATE trireme_${name} ${ARGN} GTest::gmock GTest::gtest_main)
  target_compile_options(test_${name} PRIVATE -O1)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(test_${name} PRIVATE
    TRIREME_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/${folder}/data"
    TRIREME_SHARED_DATA="${PROJECT_SOURCE_DIR}/../shared/data")
  add_test(NAME ${name} COMMAND test_${name} --gtest_filter=-Slow* --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS fast)
  execute_process(COMMAND grep -lE "^TEST(_F|_P)?\\(Slow|^INSTANTIATE.*Slow" ${sources} OUTPUT_VARIABLE slow)
  if(slow)
    add_test(NAME ${name}_slow COMMAND test_${name} --gtest_filter=Slow*:*/Slow* --gtest_brief=1)
    set_tests_properties(${name}_slow PROPERTIES LABELS slow RUN_SERIAL TRUE)
  endif()
endfunction()
