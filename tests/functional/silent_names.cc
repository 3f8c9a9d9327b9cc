// A library to preload into a program: no name server answers it about example.com, ever.
#include <dlfcn.h>
#include <netdb.h>
#include <unistd.h>

#include <cstring>

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  while (node != nullptr && std::strstr(node, ".example.com") != nullptr) pause();
  static const auto other =
      reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return other(node, service, hints, found);
}
