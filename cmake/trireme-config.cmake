# find_package(trireme): the imported target trireme::trireme, a shared library that needs nothing else to be found.
include(${CMAKE_CURRENT_LIST_DIR}/trireme-targets.cmake)
