// Request targets of arbitrary bytes: the path equals the normal form that a simple implementation
// finds, and each query parameter has its first value.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/request_target.h"

namespace {

using namespace std::string_view_literals;

void require(bool holds) {
  if (!holds) std::abort();
}

std::string decode(std::string_view text, bool plus_is_space) {
  constexpr std::string_view kHex = "0123456789abcdef0123456789ABCDEF";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t high = i + 2 < text.size() ? kHex.find(text[i + 1]) : kHex.npos;
    const std::size_t low = i + 2 < text.size() ? kHex.find(text[i + 2]) : kHex.npos;
    if (text[i] == '%' && high != kHex.npos && low != kHex.npos) {
      out.push_back(static_cast<char>(high % 16 * 16 + low % 16));
      i += 2;
    } else {
      out.push_back(plus_is_space && text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

std::string plainly_normalized(std::string_view sent) {
  std::vector<std::string> kept;
  bool ends_in_slash = true;
  for (const std::string& segment : split(decode(sent, false), '/')) {
    ends_in_slash = segment.empty() || segment == "." || segment == "..";
    if (segment == ".." && !kept.empty()) kept.pop_back();
    if (!ends_in_slash) kept.push_back(segment);
  }
  std::string path;
  for (const std::string& segment : kept) path += "/" + segment;
  return ends_in_slash ? path + "/" : path;
}

void check_path(std::string_view sent) {
  std::string buffer;
  std::string again;
  const std::string path(sluice::base::normalized_path(sent, buffer));
  require(path == plainly_normalized(sent));
  require(path.starts_with('/') && path.find("//") == path.npos);
  for (const std::string& segment : split(path, '/')) require(segment != "." && segment != "..");
  if (path.find('%') == path.npos) require(sluice::base::normalized_path(path, again) == path);
}

void check_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& pair : split(query, '&')) {
    const std::size_t equals = pair.find('=');
    if (pair.empty()) continue;
    all.emplace_back(decode(pair.substr(0, equals), true),
                     equals == pair.npos ? "" : decode(pair.substr(equals + 1), true));
  }
  sluice::base::Buffers buffers;
  for (const auto& [name, value] : all) {
    const auto found = sluice::base::find_query(query, name, buffers);
    require(found.has_value());
    for (const auto& [other, first] : all) {
      if (other != name) continue;
      require(*found == first);
      break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<char> exact(data, data + size);  // so that a read past the end is found
  const std::string_view target(exact.data(), exact.size());
  const auto parts = sluice::base::split_target(target);
  require(parts.path.find_first_of("?#"sv) == target.npos);
  require(parts.query.find('#') == target.npos);
  check_path(parts.path);
  check_path(target);
  if (parts.query.size() < 4096) check_query(parts.query);
  return 0;
}
