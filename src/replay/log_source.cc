#include "replay/log_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "replay/inflater.h"

namespace sluice::replay {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kCompressedBlock = std::size_t{128} << 10;
constexpr std::size_t kPeek = 6;  // enough for every magic number below
constexpr std::string_view kGzipMagic = "\x1f\x8b"sv;

struct Foreign {
  std::string_view magic;
  std::string_view advice;
};
constexpr std::array<Foreign, 4> kForeign{{
    {"\xfd"
     "7zXZ"sv,
     "it is xz; only gzip is read: xz -dc LOG | sluice replay ... -"},
    {"\x28\xb5\x2f\xfd"sv, "it is zstd; only gzip is read: zstd -dc LOG | sluice replay ... -"},
    {"BZh"sv, "it is bzip2; only gzip is read: bzip2 -dc LOG | sluice replay ... -"},
    {"PK\x03\x04"sv, "it is zip; only gzip is read: unzip -p LOG | sluice replay ... -"},
}};

std::string system_error(std::string_view what) {
  return std::string(what) + ": " + std::strerror(errno);
}

// An open file descriptor. read() returns the peeked first bytes again.
class File {
 public:
  File(int descriptor, bool owned, std::optional<std::uint64_t> size)
      : descriptor_(descriptor), owned_(owned), progress_{0, size} {}
  ~File() {
    if (owned_ && descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const FileProgress& progress() const { return progress_; }

  // Returns the first bytes, up to kPeek. read() returns them again.
  Expected<std::string_view> peek() {
    while (peeked_ < kPeek) {
      const auto got = from_descriptor({peek_.data() + peeked_, kPeek - peeked_});
      if (!got) return Unexpected{got.error()};
      if (*got == 0) break;
      peeked_ += *got;
    }
    return std::string_view(peek_.data(), peeked_);
  }

  Expected<std::size_t> read(std::span<char> into) {
    if (given_back_ == peeked_) return from_descriptor(into);
    const std::size_t size = std::min(into.size(), peeked_ - given_back_);
    std::copy_n(peek_.data() + given_back_, size, into.data());
    given_back_ += size;
    return size;
  }

 private:
  Expected<std::size_t> from_descriptor(std::span<char> into) {
    ssize_t got = 0;
    do {
      got = ::read(descriptor_, into.data(), into.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) return Unexpected{system_error("cannot read")};
    progress_.read += static_cast<std::uint64_t>(got);
    return static_cast<std::size_t>(got);
  }

  int descriptor_;
  bool owned_;
  FileProgress progress_;
  std::array<char, kPeek> peek_{};
  std::size_t peeked_ = 0;
  std::size_t given_back_ = 0;
};

class PlainSource final : public LogSource {
 public:
  explicit PlainSource(std::unique_ptr<File> file) : file_(std::move(file)) {}
  Expected<std::size_t> read(std::span<char> into) override { return file_->read(into); }
  FileProgress progress() const override { return file_->progress(); }

 private:
  std::unique_ptr<File> file_;
};

// Reads the members of a gzip file, as in the output of `cat a.gz b.gz`. Zeros after the last
// member are padding. Other bytes are an error, because they may be a member with a damaged header.
class GzipSource final : public LogSource {
 public:
  explicit GzipSource(std::unique_ptr<File> file) : file_(std::move(file)) {}

  FileProgress progress() const override { return file_->progress(); }

  Expected<std::size_t> read(std::span<char> into) override {
    while (true) {
      if (corrupt_) {
        return Unexpected{"the gzip data is corrupt; what was read before it is counted"};
      }
      if (input_.empty() && !file_ended_) {
        if (auto refilled = refill(); !refilled) return Unexpected{refilled.error()};
      }
      if (between_members_) {
        const auto more = next_member();
        if (!more) return Unexpected{more.error()};
        if (!*more) return std::size_t{0};
        if (between_members_) continue;
      }
      const Inflater::Step step = inflater_.inflate(input_, into);
      input_ = input_.subspan(step.consumed);
      between_members_ = step.state == Inflater::State::kMemberEnded;
      corrupt_ = step.state == Inflater::State::kCorrupt;
      if (step.produced > 0) return step.produced;
      if (!corrupt_ && input_.empty() && file_ended_ && !between_members_) {
        return Unexpected{"the gzip data is cut off; what was read before it is counted"};
      }
    }
  }

 private:
  Expected<bool> refill() {
    const auto got = file_->read(buffer_);
    if (!got) return Unexpected{got.error()};
    input_ = std::span<const char>(buffer_).first(*got);
    file_ended_ = *got == 0;
    return true;
  }

  // Examines the bytes after a member. Returns false at the end of the file.
  Expected<bool> next_member() {
    while (!input_.empty() && input_.front() == '\0' && !at_first_) {
      padding_ = true;
      input_ = input_.subspan(1);
    }
    if (input_.empty()) return !file_ended_;
    if (!at_first_ && (padding_ || input_.front() != kGzipMagic[0])) {
      return Unexpected{"bytes that are not gzip follow the gzip data; they are not counted"};
    }
    if (!at_first_) inflater_.begin_member();
    at_first_ = false;
    between_members_ = false;
    return true;
  }

  std::unique_ptr<File> file_;
  Inflater inflater_;
  std::vector<char> buffer_ = std::vector<char>(kCompressedBlock);
  std::span<const char> input_;
  bool file_ended_ = false;
  bool between_members_ = true;
  bool at_first_ = true;
  bool padding_ = false;
  bool corrupt_ = false;
};

Expected<std::unique_ptr<File>> open_file(const std::string& path) {
  const bool standard_input = path == "-";
  const int descriptor = standard_input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status{};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) {
    return Unexpected{system_error("cannot open")};
  }
  std::optional<std::uint64_t> size;
  if (S_ISREG(status.st_mode)) size = static_cast<std::uint64_t>(status.st_size);
  auto file = std::make_unique<File>(descriptor, !standard_input, size);
  if (S_ISDIR(status.st_mode)) return Unexpected{"is a directory; expected a log file"};
  return file;
}

}  // namespace

Expected<std::unique_ptr<LogSource>> open_log(const std::string& path) {
  auto file = open_file(path);
  if (!file) return Unexpected{file.error()};
  const auto head = (*file)->peek();
  if (!head) return Unexpected{head.error()};
  for (const Foreign& foreign : kForeign) {
    if (head->starts_with(foreign.magic)) return Unexpected{std::string(foreign.advice)};
  }
  std::unique_ptr<LogSource> source;
  if (head->starts_with(kGzipMagic)) {
    source = std::make_unique<GzipSource>(std::move(*file));
  } else {
    source = std::make_unique<PlainSource>(std::move(*file));
  }
  return source;
}

}  // namespace sluice::replay
