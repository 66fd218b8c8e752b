# Debian packages by CPack: brrd (daemon, tools), brrctl (command line client, unit of a bed's recorder), libbrr1 (client library),
# libbrr-dev (header, example programs), python3-brr (import brr), brrd-mpi where mpicc was found, and brrd-cuda where the CUDA backend was built.
# `./dev package` makes them in build/packages; docs/operations.md says how they are used.
set(debian ${CMAKE_SOURCE_DIR}/deploy/debian)
set(packaged ${CMAKE_BINARY_DIR}/packaged) # what is made for the packages alone

# The version and the time of the last commit, so that one commit gives the same bytes.
set(BRR_PACKAGE_REVISION 2 CACHE STRING "the revision of the Debian packages")
execute_process(COMMAND git -C ${CMAKE_SOURCE_DIR} log -1 --format=%aD OUTPUT_VARIABLE BRR_PACKAGE_DATE OUTPUT_STRIP_TRAILING_WHITESPACE
                ERROR_QUIET)
if(NOT BRR_PACKAGE_DATE)
  set(BRR_PACKAGE_DATE "Thu, 01 Jan 1970 00:00:00 +0000")
endif()
set(BRR_PACKAGE_VERSION ${PROJECT_VERSION}-${BRR_PACKAGE_REVISION})
configure_file(${debian}/changelog.in ${packaged}/changelog @ONLY)
execute_process(COMMAND gzip -9nc ${packaged}/changelog OUTPUT_FILE ${packaged}/changelog.Debian.gz)

# Manual pages come from the help of the programs, so they need no care of their own.
add_custom_command(OUTPUT ${packaged}/man/man1/brrctl.1.gz
                   COMMAND ${debian}/manual_pages.sh $<TARGET_FILE:brrd> $<TARGET_FILE:brrctl> ${packaged}/man
                   DEPENDS brrd brrctl ${debian}/manual_pages.sh VERBATIM)
add_custom_command(OUTPUT ${packaged}/completion/_brrctl
                   COMMAND ${CMAKE_COMMAND} -E make_directory ${packaged}/completion
                   COMMAND $<TARGET_FILE:brrctl> completion bash > ${packaged}/completion/brrctl
                   COMMAND $<TARGET_FILE:brrctl> completion fish > ${packaged}/completion/brrctl.fish
                   COMMAND $<TARGET_FILE:brrctl> completion zsh > ${packaged}/completion/_brrctl
                   DEPENDS brrctl VERBATIM)
add_custom_target(package_files DEPENDS ${packaged}/man/man1/brrctl.1.gz ${packaged}/completion/_brrctl) # needs help2man
install(DIRECTORY ${packaged}/man/man8 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT brrd OPTIONAL)
install(DIRECTORY ${packaged}/man/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT brrctl OPTIONAL)
install(FILES ${packaged}/completion/brrctl DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT brrctl OPTIONAL)
install(FILES ${packaged}/completion/brrctl.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT brrctl OPTIONAL)
install(FILES ${packaged}/completion/_brrctl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT brrctl OPTIONAL)

set(components brrd brrctl libbrr libbrr-dev python3-brr)
if(TARGET brr_mpi)
  list(APPEND components brrd-mpi)
endif()
if(TARGET brr_cuda)
  list(APPEND components brrd-cuda)
endif()
foreach(package brrd brrctl libbrr1 libbrr-dev python3-brr brrd-mpi brrd-cuda)
  string(REPLACE libbrr1 libbrr component ${package})
  install(FILES ${debian}/copyright ${packaged}/changelog.Debian.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "the brrd authors")
set(CPACK_PACKAGE_CONTACT "the brrd authors <brrd@brrd.invalid>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES ON)
set(CPACK_SET_DESTDIR ON) # /etc is outside the prefix
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${BRR_PACKAGE_REVISION})
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(exact "libbrr1 (= ${BRR_PACKAGE_VERSION})")

set(CPACK_DEBIAN_BRRD_PACKAGE_NAME brrd)
set(CPACK_DEBIAN_BRRD_PACKAGE_SECTION science)
set(CPACK_DEBIAN_BRRD_PACKAGE_DEPENDS "${exact}, brrctl (= ${BRR_PACKAGE_VERSION}), ca-certificates, systemd | systemd-standalone-sysusers")
set(CPACK_DEBIAN_BRRD_PACKAGE_SUGGESTS prometheus)
set(CPACK_DEBIAN_BRRD_PACKAGE_CONTROL_EXTRA ${debian}/postinst ${debian}/prerm ${debian}/postrm)
set(CPACK_COMPONENT_BRRD_DESCRIPTION "EEG daemon: seizure detection, training and streaming
brrd trains seizure detectors on EEG recordings and runs them on live EEG.
It owns the GPU of a machine, or its processor if there is no GPU, and
offers jobs, streams, checkpoints and metrics by a protobuf RPC interface.

It is not a medical device.")

set(CPACK_DEBIAN_BRRCTL_PACKAGE_NAME brrctl)
set(CPACK_DEBIAN_BRRCTL_PACKAGE_SECTION science)
set(CPACK_DEBIAN_BRRCTL_PACKAGE_DEPENDS "${exact}, ca-certificates")
set(CPACK_DEBIAN_BRRCTL_PACKAGE_RECOMMENDS "librsvg2-2, fonts-dejavu-core") # pictures as PNG and PDF
set(CPACK_DEBIAN_BRRCTL_PACKAGE_BREAKS "brrd (<< ${BRR_PACKAGE_VERSION})") # which had its files
set(CPACK_DEBIAN_BRRCTL_PACKAGE_REPLACES "brrd (<< ${BRR_PACKAGE_VERSION})")
set(CPACK_COMPONENT_BRRCTL_DESCRIPTION "command line client of the EEG daemon brrd
brrctl streams EEG to brrd, submits its jobs, answers its alarms and shows
what it does. The unit brrd-bed@.service streams the recorder of a bed.
A machine beside a bed needs this package and no daemon.")

set(CPACK_DEBIAN_LIBBRR_PACKAGE_NAME libbrr1)
set(CPACK_DEBIAN_LIBBRR_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBBRR_PACKAGE_CONTROL_EXTRA ${debian}/triggers)
set(CPACK_COMPONENT_LIBBRR_DESCRIPTION "client library of the EEG daemon brrd
libbrr streams EEG to brrd and receives probabilities, events and alarms.
Its streams outlive cut connections and restarts of the daemon.
libbrr_scan, libbrr_detector and libbrr_burst compute scans, detectors and
spiking networks without a daemon; the Python package brr in share/brrd/python loads them.")

set(CPACK_DEBIAN_LIBBRR-DEV_PACKAGE_NAME libbrr-dev)
set(CPACK_DEBIAN_LIBBRR-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBBRR-DEV_PACKAGE_DEPENDS "${exact}")
set(CPACK_DEBIAN_LIBBRR-DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_COMPONENT_LIBBRR-DEV_DESCRIPTION "client library of the EEG daemon brrd (development files)
Headers, pkg-config files, the protobuf files and example programs
of libbrr, libbrr_scan, libbrr_detector and libbrr_burst.")

set(CPACK_DEBIAN_PYTHON3-BRR_PACKAGE_NAME python3-brr)
set(CPACK_DEBIAN_PYTHON3-BRR_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON3-BRR_PACKAGE_DEPENDS "${exact}, python3, python3-numpy")
set(CPACK_DEBIAN_PYTHON3-BRR_PACKAGE_RECOMMENDS "brrd, python3-protobuf") # the model demo; brr.v1
set(CPACK_DEBIAN_PYTHON3-BRR_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PYTHON3-BRR_PACKAGE_GENERATE_SHLIBS OFF)
set(CPACK_COMPONENT_PYTHON3-BRR_DESCRIPTION "recordings, detectors and scans of brrd for Python 3
The package brr reads recordings into NumPy, runs the seizure detectors of
brrd in the process or in a daemon, and computes selective scans.")

set(CPACK_DEBIAN_BRRD-MPI_PACKAGE_NAME brrd-mpi)
set(CPACK_DEBIAN_BRRD-MPI_PACKAGE_SECTION science)
set(CPACK_DEBIAN_BRRD-MPI_PACKAGE_DEPENDS "brrd (= ${BRR_PACKAGE_VERSION})") # and the MPI that it was built with
set(CPACK_DEBIAN_BRRD-MPI_PACKAGE_RECOMMENDS openmpi-bin) # mpirun; Slurm's srun will do
set(CPACK_DEBIAN_BRRD-MPI_PACKAGE_SUGGESTS libpmix-dev)
set(CPACK_DEBIAN_BRRD-MPI_PACKAGE_GENERATE_SHLIBS OFF)
set(CPACK_COMPONENT_BRRD-MPI_DESCRIPTION "ranks of one training for the EEG daemon brrd
The library by which processes that mpirun or Slurm started share one
training of brrd, with the same bits at any number of them.")

set(CPACK_DEBIAN_BRRD-CUDA_PACKAGE_NAME brrd-cuda)
set(CPACK_DEBIAN_BRRD-CUDA_PACKAGE_SECTION science)
set(CPACK_DEBIAN_BRRD-CUDA_PACKAGE_DEPENDS "brrd (= ${BRR_PACKAGE_VERSION}), libc6, libstdc++6")
set(CPACK_DEBIAN_BRRD-CUDA_PACKAGE_SHLIBDEPS OFF) # cuBLAS comes from NVIDIA's repository
set(CPACK_DEBIAN_BRRD-CUDA_PACKAGE_GENERATE_SHLIBS OFF)
set(CPACK_COMPONENT_BRRD-CUDA_DESCRIPTION "CUDA kernels of the EEG daemon brrd
The backend that runs brrd's networks on an NVIDIA GPU. It needs cuBLAS 13
and a driver, both from NVIDIA's own repository.")
install(FILES ${debian}/brrd-cuda.lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides COMPONENT brrd-cuda RENAME brrd-cuda)
include(CPack)
