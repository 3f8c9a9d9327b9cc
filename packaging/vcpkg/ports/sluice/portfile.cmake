# Builds the library from this checkout:
#   vcpkg install 'sluice[rules,redis]' --overlay-ports=packaging/vcpkg/ports
vcpkg_check_linkage(ONLY_STATIC_LIBRARY)
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS features
  FEATURES
    quota SLUICE_BUILD_QUOTA
    redis SLUICE_BUILD_REDIS
    rules SLUICE_BUILD_RULES)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${features}
    -DSLUICE_BUILD_CLI=OFF
    -DSLUICE_BUILD_TESTS=OFF
    -DSLUICE_BUILD_BENCH=OFF
    -DSLUICE_BUILD_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/sluice)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
  "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
