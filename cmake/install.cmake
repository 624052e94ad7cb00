# `cmake --install build/release --prefix PREFIX` installs the program, its plug-ins in the folder that it searches, the
# manual page and shell completions, which the program generates; and the library, which searches the same folder for
# plug-ins, with its headers and the files for find_package and pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Builds missing targets first: a build may have made only some of them, as ./quickstart does.
add_custom_target(trireme_installed DEPENDS trireme trireme_shared)
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target trireme_installed
  COMMAND_ERROR_IS_FATAL ANY)")
install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(plugin trireme_mpi trireme_loopback trireme_arrow trireme_http trireme_cuda trireme_hip)
  if(TARGET ${plugin})
    add_dependencies(trireme_installed ${plugin})
    # Keeps the RPATH of the build, which has the vendor's library folders.
    install(PROGRAMS $<TARGET_FILE:${plugin}> DESTINATION lib/trireme)
  endif()
endforeach()

install(DIRECTORY recipes DESTINATION lib/trireme)
install(TARGETS trireme_shared EXPORT trireme_targets LIBRARY DESTINATION lib)
install(DIRECTORY include/trireme DESTINATION include)
set(trireme_packages ${CMAKE_BINARY_DIR}/packages)
write_basic_package_version_file(${trireme_packages}/trireme-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/trireme.pc.in ${trireme_packages}/trireme.pc @ONLY)
install(EXPORT trireme_targets FILE trireme-targets.cmake NAMESPACE trireme:: DESTINATION lib/cmake/trireme)
install(FILES cmake/trireme-config.cmake ${trireme_packages}/trireme-config-version.cmake DESTINATION lib/cmake/trireme)
install(FILES ${trireme_packages}/trireme.pc DESTINATION lib/pkgconfig)

# trireme_install_output(<file under the prefix> <arguments>...): installs the output of the program as a file.
function(trireme_install_output file)
  get_filename_component(folder ${file} DIRECTORY)
  list(JOIN ARGN " " arguments)
  install(CODE "
    set(output \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\")
    message(STATUS \"Installing: \${output}\")
    file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\")
    execute_process(COMMAND \"$<TARGET_FILE:trireme>\" ${arguments} OUTPUT_FILE \"\${output}\" COMMAND_ERROR_IS_FATAL ANY)")
endfunction()
trireme_install_output(${CMAKE_INSTALL_DATADIR}/man/man1/trireme.1 man)
trireme_install_output(${CMAKE_INSTALL_DATADIR}/bash-completion/completions/trireme completion bash)
trireme_install_output(${CMAKE_INSTALL_DATADIR}/zsh/site-functions/_trireme completion zsh)
trireme_install_output(${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d/trireme.fish completion fish)
