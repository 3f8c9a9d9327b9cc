# Finds gRPC's C++ library and makes grpcpp::grpcpp. Its pkg-config file lists every part of
# Abseil, and pkgconf takes 20 s to read it.

find_path(grpcpp_INCLUDE_DIR grpcpp/grpcpp.h)
find_library(grpcpp_LIBRARY grpc++)
find_library(grpcpp_grpc_LIBRARY grpc)
find_library(grpcpp_gpr_LIBRARY gpr)
find_library(grpcpp_mutex_LIBRARY absl_synchronization)  # its headers call it without optimization
mark_as_advanced(grpcpp_INCLUDE_DIR grpcpp_LIBRARY grpcpp_grpc_LIBRARY grpcpp_gpr_LIBRARY
  grpcpp_mutex_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(grpcpp
  REQUIRED_VARS grpcpp_LIBRARY grpcpp_grpc_LIBRARY grpcpp_gpr_LIBRARY grpcpp_mutex_LIBRARY
    grpcpp_INCLUDE_DIR)
if(grpcpp_FOUND AND NOT TARGET grpcpp::grpcpp)
  add_library(grpcpp::grpcpp UNKNOWN IMPORTED)
  set_target_properties(grpcpp::grpcpp PROPERTIES
    IMPORTED_LOCATION "${grpcpp_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${grpcpp_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${grpcpp_grpc_LIBRARY};${grpcpp_gpr_LIBRARY};${grpcpp_mutex_LIBRARY}")
endif()
