# Finds nghttp2 and makes nghttp2::nghttp2: Debian 12's package brings no CMake package.

find_path(nghttp2_INCLUDE_DIR nghttp2/nghttp2.h)
find_library(nghttp2_LIBRARY nghttp2)
mark_as_advanced(nghttp2_INCLUDE_DIR nghttp2_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(nghttp2 REQUIRED_VARS nghttp2_LIBRARY nghttp2_INCLUDE_DIR)
if(nghttp2_FOUND AND NOT TARGET nghttp2::nghttp2)
  add_library(nghttp2::nghttp2 UNKNOWN IMPORTED)
  set_target_properties(nghttp2::nghttp2 PROPERTIES
    IMPORTED_LOCATION "${nghttp2_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${nghttp2_INCLUDE_DIR}")
endif()
