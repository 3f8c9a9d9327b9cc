// A library to preload into a program: no name server answers it, ever.
#include <netdb.h>
#include <unistd.h>

extern "C" int getaddrinfo(const char*, const char*, const addrinfo*, addrinfo**) {
  for (;;) pause();
}
