# `cmake --install`: libraries, public headers, a CMake package, a pkg-config file, the program.
#
# Who wants limits alone need not have what the rules, the Redis store or the quota client need: these
# have export sets of their own, and the last two share one.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)

install(TARGETS sluice_base sluice_core sluice_limiter sluice_memory sluice_policy sluice_sluice
  EXPORT sluiceTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION ${config_dir})

install(DIRECTORY include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h"
  PATTERN attributes.h EXCLUDE PATTERN overrides.h EXCLUDE PATTERN rule*.h EXCLUDE
  PATTERN redis*.h EXCLUDE PATTERN async_redis*.h EXCLUDE PATTERN quota_client.h EXCLUDE)

if(TARGET sluice_rules)
  install(TARGETS sluice_rules EXPORT sluiceRulesTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT sluiceRulesTargets NAMESPACE sluice:: DESTINATION ${config_dir})
  install(DIRECTORY include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN attributes.h PATTERN overrides.h PATTERN rule*.h)
  install(FILES cmake/Findre2.cmake DESTINATION ${config_dir})
endif()

if(TARGET sluice_client_tls)
  install(TARGETS sluice_client_tls EXPORT sluiceClientTlsTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT sluiceClientTlsTargets NAMESPACE sluice:: DESTINATION ${config_dir})
endif()

if(TARGET sluice_redis)
  install(TARGETS sluice_redis sluice_redis_client sluice_redis_script
    EXPORT sluiceRedisTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT sluiceRedisTargets NAMESPACE sluice:: DESTINATION ${config_dir})
  install(FILES include/sluice/async_redis_store.h include/sluice/redis_chain.h
    include/sluice/redis_store.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice)
endif()

if(TARGET sluice_quota_client)
  install(TARGETS sluice_quota_client sluice_quota_proto EXPORT sluiceQuotaTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT sluiceQuotaTargets NAMESPACE sluice:: DESTINATION ${config_dir})
  install(FILES include/sluice/quota_client.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice)
  install(FILES cmake/Findnghttp2.cmake DESTINATION ${config_dir})
endif()

if(TARGET sluice_module)
  install(TARGETS sluice_module LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/sluice)
endif()

if(TARGET sluice)
  install(TARGETS sluice RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(cmake/sluiceConfig.cmake.in ${PROJECT_BINARY_DIR}/sluiceConfig.cmake
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
# The prefix is relative to the folder of the file, because `cmake --install --prefix` chooses another one.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/sluice.pc.in ${PROJECT_BINARY_DIR}/sluice.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sluiceConfig.cmake
  ${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake DESTINATION ${config_dir})
install(FILES ${PROJECT_BINARY_DIR}/sluice.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
