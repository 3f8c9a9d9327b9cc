#pragma once

#include <optional>
#include <string>
#include <vector>

#include "limiter/replacement_file.h"
#include "sluice/expected.h"

namespace sluice::server::net {

using detail::FileDescriptor;

// Takes the lock of a file that several processes may replace: an exclusive lock of the file
// PATH.lock next to it, which only this user can open (mode 0600), and which stays there. Other
// users who can read the folder cannot hold it. The lock ends with the last copy of its descriptor,
// so a process that has received a copy shares it.
//
// Takes it from `inherited` if it is there. Never waits. Returns nothing if somebody else has it.
// Errors: PATH.lock cannot be opened or locked.
Expected<std::optional<FileDescriptor>> try_lock(const std::string& path,
                                                 std::vector<FileDescriptor> inherited = {});

}  // namespace sluice::server::net
