# find_package(trireme): defines the imported target trireme::trireme, a shared library without other dependencies.
include(${CMAKE_CURRENT_LIST_DIR}/trireme-targets.cmake)
