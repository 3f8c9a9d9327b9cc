// `sluice init`: writes rules, a configuration and what a gateway needs, from three answers. The
// files of the gateway are those of deploy/, without what the answers do not need.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "cli/command.h"
#include "cli/deploy_files.h"
#include "core/period.h"
#include "rules/attributes.h"
#include "rules/diagnostics.h"
#include "server/config/config.h"
#include "stores/redis/client/target.h"

namespace sluice::cli {
namespace {

constexpr const char* kInitHelp =
    R"(Write rules.yaml, sluice.yaml and the files for a gateway into a folder, ready to run. At a terminal,
init asks three questions for what the flags leave open: which gateway is in front of your
application, how many requests each client may send, and where the counters are.

KEY is what clients differ by: ip, the address (in IPv6 its /64); user, the name that your gateway
verifies; or a header, such as header.x-api-key. If the user or the header is missing, the address
counts. Your gateway must verify both: a client that invents a new value with each request meets only
the second limit that init then writes, ten times the first one for each address.

No file is overwritten without --force. No password is written: if SLUICE_STORE is set, it says where
the counters are, and sluice.yaml does not. For --store URL without a password, name its file as
redis: { password_file: FILE } in sluice.yaml.

Exit status: 0 written; 1 a file exists, or cannot be written; 2 wrong usage.

Examples:
  sluice init
  sluice init --gateway nginx --key ip --limit 100 --per 1m --store memory --dir /etc/sluice
  sluice init --gateway envoy --key header.x-api-key --limit 20 --per 1s)";

struct InitFlags {
  std::string gateway, key, limit, per, store;
  std::string folder = ".";
  bool force = false;
};

constexpr std::array<std::string_view, 3> kGateways{"nginx", "caddy", "envoy"};

// Each returns what is wrong, or an empty text.
std::string find_wrong_gateway(const std::string& name) {
  if (std::find(kGateways.begin(), kGateways.end(), name) != kGateways.end()) return {};
  return base::in_quotes(name) + " is no gateway that init knows; expected nginx, caddy or envoy" +
         rules::did_you_mean(name, {kGateways.begin(), kGateways.end()});
}

std::string find_wrong_key(const std::string& key) {
  if (key == "ip" || key == "user") return {};
  constexpr std::string_view kHeader = "header.";
  constexpr std::string_view kOfNames =
      "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  if (key.starts_with(kHeader) && key.size() > kHeader.size() &&
      key.find_first_not_of(kOfNames, kHeader.size()) == key.npos) {
    return {};
  }
  return base::in_quotes(key) +
         " is no key; expected ip, user, or a header of letters, digits and '-', such as "
         "header.x-api-key";
}

std::string find_wrong_limit(const std::string& limit) {
  if (base::read_number<std::uint32_t>(limit).value_or(0) > 0) return {};
  return base::in_quotes(limit) + " is no limit; expected a whole number from 1 to 4294967295";
}

std::string find_wrong_period(const std::string& per) {
  const auto period = core::parse_period(per);
  if (!period) return period.error();
  if (*period > Duration{0} && *period <= kMaxPeriod) return {};
  return base::in_quotes(per) + " is out of range; expected 1ms to 366d";
}

std::string find_wrong_store(const std::string& store) {
  std::string wrong = server::find_store_error(store, {});
  if (!wrong.empty() || store == "memory") return wrong;
  const auto target = redis::make_target({.url = store});
  if (!target || (*target)->options.password.empty()) return {};
  return "the URL has a password, which every reader of sluice.yaml would see; expected it without "
         "user and password, and then redis: { password_file: FILE } or { password_env: NAME } in "
         "sluice.yaml, with its username if there is one";
}

std::string find_wrong_folder(const std::string& folder) {
  const bool has_control = std::any_of(folder.begin(), folder.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (!folder.empty() && !has_control) return {};
  return "expected the name of a folder, without control characters";
}

// Whether the store is in the environment, where `sluice serve` finds it.
bool has_store_variable() {
  const char* const store = std::getenv("SLUICE_STORE");
  return store != nullptr && *store != '\0';
}

// Returns the name of a file as a word of nginx: in quotes if it has blanks.
std::string in_nginx(const std::string& file) {
  if (file.find_first_of(" ;{}#'\"\\") == file.npos) return file;
  std::string out = "\"";
  for (const char c : file) out.append(c == '"' || c == '\\' ? "\\" : "").append(1, c);
  return out + '"';
}

// Asks until the answer is right, and returns it. `take` returns what is wrong with it.
template <typename Take>
void ask_until_right(const std::string& question, const std::string& otherwise, const Take& take) {
  for (;;) {
    std::cout << question << " [" << otherwise << "] " << std::flush;
    std::string answer;
    if (!std::getline(std::cin, answer)) throw wrong_usage("the questions were not answered");
    while (!answer.empty() && (answer.back() == ' ' || answer.back() == '\r')) answer.pop_back();
    const std::string wrong = take(answer.empty() ? otherwise : answer);
    if (wrong.empty()) return;
    std::cout << "  " << wrong << '\n';
  }
}

// Returns the period of "1m", "s", "minute" or "second" as parse_period() reads it.
std::string period_in(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kWords{
      {{"second", "1s"}, {"minute", "1m"}, {"hour", "1h"}, {"day", "1d"}}};
  for (const auto& [word, period] : kWords) {
    if (text == word) return std::string(period);
  }
  return core::parse_period("1" + text) && !core::parse_period(text) ? "1" + text : text;
}

// Reads "100 per 1m by ip", or parts of it such as "100", "20/s" or "by user", into the flags. The
// missing parts stay as they are.
std::string take_limit(const std::string& answer, InitFlags& flags) {
  std::vector<std::string> words(1);
  for (const char c : answer) {
    if (c == '/') words.insert(words.end(), {"per", ""});
    if (c == ' ' && !words.back().empty()) words.emplace_back();
    if (c != '/' && c != ' ') words.back() += c;
  }
  std::erase(words, "");
  std::string limit, per, key;
  std::size_t at = 0;
  if (!words.empty() && words[0] != "per" && words[0] != "by") limit = words[at++];
  if (at + 1 < words.size() && words[at] == "per") per = period_in(words[at + 1]), at += 2;
  if (at + 1 < words.size() && words[at] == "by") key = words[at + 1], at += 2;
  if (words.empty() || at < words.size()) {
    return base::in_quotes(answer) +
           " is no limit; expected one such as 100 per 1m by ip, 100 per 1m, 20/s, or 100";
  }
  for (std::string wrong :
       {limit.empty() ? "" : find_wrong_limit(limit), per.empty() ? "" : find_wrong_period(per),
        key.empty() ? "" : find_wrong_key(key)}) {
    if (!wrong.empty()) return wrong;
  }
  const auto set = [](std::string& flag, const std::string& value) {
    if (!value.empty()) flag = value;
  };
  set(flags.limit, limit);
  set(flags.per, per);
  set(flags.key, key);
  return {};
}

// Completes the flags by answers, or by defaults if nobody can answer.
void complete_flags(InitFlags& flags) {
  const bool is_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  if (flags.gateway.empty()) {
    if (!is_terminal) throw wrong_usage("expected --gateway nginx, caddy or envoy");
    ask_until_right(
        "Which gateway is in front of your application: nginx, caddy or envoy?", "nginx",
        [&](const std::string& answer) { return find_wrong_gateway(flags.gateway = answer); });
  }
  if (flags.limit.empty() || flags.per.empty() || flags.key.empty()) {
    const std::string otherwise = (flags.limit.empty() ? "100" : flags.limit) + " per " +
                                  (flags.per.empty() ? "1m" : flags.per) + " by " +
                                  (flags.key.empty() ? "ip" : flags.key);
    const auto take = [&](const std::string& answer) { return take_limit(answer, flags); };
    if (const std::string wrong = take(otherwise); !wrong.empty()) throw wrong_usage(wrong);
    if (is_terminal) {
      ask_until_right(
          "Requests allowed for each client (for example: 100 per 1m by ip, or by user, or by "
          "header.x-api-key)",
          otherwise, take);
    }
  }
  if (!flags.store.empty() || has_store_variable()) return;
  if (!is_terminal) {
    flags.store = "memory";
  } else {
    ask_until_right(
        "Where are the counters: memory, or a Redis such as redis://127.0.0.1:6379?", "memory",
        [&](const std::string& answer) { return find_wrong_store(flags.store = answer); });
  }
}

// Returns a text of deploy/.
std::string deployed(std::string_view name) {
  const auto* const file = std::ranges::find(deploy::kFiles, name, &deploy::File::name);
  return file == std::end(deploy::kFiles) ? std::string() : std::string(file->text);
}

// Replaces the text from one mark up to another, which stays, or to the end if it is empty. Throws
// Failed if a mark is not there, which a test finds.
void replace(std::string& text, std::string_view from, std::string_view to,
             std::string_view by = {}) {
  const std::size_t begin = text.find(from);
  const std::size_t end = to.empty() ? text.size() : text.find(to, begin);
  if (begin == text.npos || end == text.npos) {
    throw Failed("a file of deploy/ lacks '" + std::string(begin == text.npos ? from : to) + "'");
  }
  text.replace(begin, end - begin, by);
}

// Replaces a mark everywhere.
void replace_all(std::string& text, std::string_view mark, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != text.npos; at += by.size()) {
    text.replace(at, mark.size(), by);
  }
}

// Returns the text without blanks at its end.
std::string without_end(std::string text) {
  while (text.ends_with(' ') || text.ends_with('\n')) text.pop_back();
  return text;
}

using NamedTexts = std::vector<std::pair<std::string, std::string>>;  // files

// The whole path of a file in the folder.
std::string path_of(const InitFlags& flags, const char* name) {
  return (std::filesystem::absolute(flags.folder) / name).lexically_normal().string();
}

NamedTexts nginx_files(const InitFlags& flags) {
  std::string request = deployed("nginx/sluice_request.conf");
  replace(request, "# For the two locations", "# The lines below");
  replace_all(request, "\n", "\n    ");
  replace_all(request, "\n    \n", "\n\n");
  std::string fields = deployed("nginx/sluice_fields.conf");
  replace(fields, "# Reports", "add_header");
  std::string server = deployed("nginx/sluice.conf");
  replace(
      server, "# For a server block", "auth_request /_sluice;",
      "# For a server block, as in `include " + in_nginx(path_of(flags, "sluice.conf")) +
          ";`: sends every\n"
          "# request of the server to Sluice. `auth_request off` in a location exempts "
          "it. A location with its own\n"
          "# `add_header`, `error_page` or `auth_request_set` does not inherit those "
          "below: repeat them there.\n\n" +
          (flags.key == "user"
               ? std::string("# The user. nginx verifies it only with `auth_basic`: without it, or "
                             "your own check,\n# $remote_user is any name that the client "
                             "writes. An application that reads the header\n# needs "
                             "`proxy_set_header X-User-Id $sluice_user;` in its location.\nset "
                             "$sluice_user $remote_user;\n\n")
               : std::string("set $sluice_user \"\";\n\n")));
  replace(server, "auth_request_set $sluice_delay", "\ninclude sluice_fields.conf");
  replace(server, "# For sluice_report.conf.", "location @sluice_gone");
  replace(server, "include sluice_request.conf;", "\n", without_end(request));
  replace(server, "include sluice_fields.conf;\n", "error_page", fields);
  replace_all(fields, "\nadd_header", "\n    add_header");
  replace(server, "include sluice_fields.conf;", "\n", without_end(fields));
  return {{"sluice_http.conf", deployed("nginx/sluice_http.conf")}, {"sluice.conf", server}};
}

NamedTexts caddy_files(const InitFlags& flags) {
  std::string file = deployed("caddy/Caddyfile");
  replace(file, "# A complete example", "# Sends the request to Sluice.",
          "# Caddy on port 8000, Sluice on port 8080, an application on port 9000.\n"
          "#   caddy run --adapter caddyfile --config sluice.caddy\n\n");
  const bool has_user = flags.key == "user";
  replace(file, "\t# The user, for Sluice", "\t# The plan",
          has_user ? "\t# The user that Caddy has verified, such as with `basic_auth`.\n"
                     "\trequest_header X-User-Id {http.auth.user.id}\n"
                   : "\t# Neither Sluice nor the application gets this header of a client.\n"
                     "\trequest_header -X-User-Id\n");
  replace(file, "# Reports the status of a response", "(application) {");
  replace(file, "\thandle /api/order/* {", "\thandle_errors {",
          "\thandle {\n\t\timport sluice\n\t\timport application\n\t}\n\n");
  replace(file, "\t\t\t# Closed:", "\t\t\t# Open:");
  replace_all(file, "# Open: all other requests pass.", "# Requests pass.");
  replace(file, "\n# A placeholder for the application", {});
  return {{"sluice.caddy", file}};
}

NamedTexts envoy_files(const InitFlags& flags) {
  std::string file = deployed("envoy/envoy.yaml");
  replace(file, "# Envoy (1.24", "admin:",
          "# Envoy (1.24 or newer) on port 8000 in front of an application at 127.0.0.1:9000. It "
          "sends each\n# request to Sluice at 127.0.0.1:8081.\n#   envoy -c envoy.yaml\n");
  replace(file, "                        # /login/ and",
          "                        - match: { prefix: / }");
  std::string actions =
      "                              - actions:\n"
      "                                  - remote_address: {}\n";
  if (flags.key != "ip") {
    const std::string name =
        flags.key == "user" ? "x-user-id" : rules::normalized(flags.key).substr(7);
    if (flags.key == "user") {
      actions +=
          "                                  # A filter before the rate limit sets it from "
          "your authentication.\n";
    }
    actions += "                                  - request_headers: { header_name: " + name +
               ", descriptor_key: client, skip_if_absent: true }\n";
  }
  replace(file, "                              # (\"remote_address\", ADDRESS)",
          "                http_filters:", actions);
  replace(file, "domain: shop", "\n", "domain: default");
  return {{"envoy.yaml", file}};
}

std::string rule_key(const InitFlags& flags) {
  if (flags.gateway == "envoy")
    return flags.key == "ip" ? "{remote_address/32/64}" : "{client|remote_address}";
  if (flags.key == "ip") return "{ip/32/64}";
  return "{" +
         (flags.key == "user" ? std::string("header.x-user-id") : rules::normalized(flags.key)) +
         "|ip}";
}

// What a client can invent, unless the gateway verifies it. Empty for addresses.
std::string unverified(const InitFlags& flags) {
  if (flags.key == "ip") return {};
  if (flags.key == "user") return "the user";
  return "the header " + rules::normalized(flags.key).substr(7);
}

std::string limit_text(std::string_view name, const std::string& key, std::uint64_t limit,
                       const std::string& per) {
  return "      - name: " + std::string(name) + "\n        key: \"" + key +
         "\"\n        algorithm: token_bucket\n        limit: " + std::to_string(limit) +
         "\n        per: " + per + "\n";
}

// The limits of the rule. A client that invents users or headers meets the one of its address.
std::string limits_of(const InitFlags& flags) {
  constexpr std::uint64_t kClientsAtAddress = 10;
  constexpr std::uint64_t kMostRequests = 4'294'967'295;
  const std::uint64_t limit = std::stoull(flags.limit);
  std::string client = limit_text("client", rule_key(flags), limit, flags.per);
  if (flags.key == "ip") return client;
  InitFlags of_address = flags;
  of_address.key = "ip";
  return "      # Your gateway must verify " + unverified(flags) +
         ": otherwise a client can invent a new one with each\n"
         "      # request, and meets only the limit `address`. That one suits " +
         std::to_string(kClientsAtAddress) + " busy clients at one address.\n" + client +
         limit_text("address", rule_key(of_address),
                    std::min(limit * kClientsAtAddress, kMostRequests), flags.per);
}

NamedTexts files_for(const InitFlags& flags) {
  NamedTexts files = flags.gateway == "nginx"   ? nginx_files(flags)
                     : flags.gateway == "caddy" ? caddy_files(flags)
                                                : envoy_files(flags);
  const bool is_envoy = flags.gateway == "envoy";
  std::string rules =
      std::string("# sluice try rules.yaml '") + (is_envoy ? "remote_address=" : "GET / ip=") +
      "192.0.2.1' says what a request gets, and why.\nversion: 1\n\nrules:\n" +
      (is_envoy ? "" : "  # All requests. `match: { path: /api/** }` limits some.\n") +
      "  - name: requests\n    limits:\n" + limits_of(flags);
  std::string config =
      "# `sluice serve` reads this file in the current folder, or with --config. "
      "`sluice docs config` prints all keys.\nversion: 1\nrules: rules.yaml\n" +
      (flags.store.empty() ? "# The environment variable SLUICE_STORE names the store.\n"
                           : "store: " + flags.store + "\n");
  config += is_envoy ? "listen: { grpc: 127.0.0.1:8081 }  # Envoy asks here\n"
                     : "listen: { http: 127.0.0.1:8080 }  # the gateway asks here\n"
                       "trusted_proxies: [127.0.0.1]      # the gateway, and nobody else\n";
  files.insert(files.begin(),
               {{"rules.yaml", std::move(rules)}, {"sluice.yaml", std::move(config)}});
  return files;
}

std::string gateway_steps(const InitFlags& flags) {
  const auto file = [&](const char* name) { return shell_word(flags.folder + "/" + name); };
  std::string out = "Next:\n  sluice serve";
  if (flags.folder != ".") out += " --config " + file("sluice.yaml");
  if (flags.store.empty()) out += "    # with SLUICE_STORE, which is not in sluice.yaml";
  out += '\n';
  if (flags.gateway == "nginx") {
    return out + "  nginx, in the http block:    include " +
           in_nginx(path_of(flags, "sluice_http.conf")) +
           ";\n  nginx, in a server block:    include " + in_nginx(path_of(flags, "sluice.conf")) +
           ";\n";
  }
  if (flags.gateway == "caddy") {
    return out + "  caddy run --adapter caddyfile --config " + file("sluice.caddy") + "\n";
  }
  return out + "  envoy -c " + file("envoy.yaml") + "\n";
}

std::string next_steps(const InitFlags& flags) {
  const std::string what = unverified(flags);
  if (what.empty()) return gateway_steps(flags);
  return gateway_steps(flags) + "Your gateway must verify " + what +
         ": a client that invents one with each request meets only the limit `address`.\n";
}

int write_files(InitFlags flags) {
  complete_flags(flags);
  const std::filesystem::path folder = flags.folder;
  const NamedTexts files = files_for(flags);
  for (const auto& [name, text] : files) {
    std::error_code ignored;
    if (flags.force ||
        !std::filesystem::exists(std::filesystem::symlink_status(folder / name, ignored)))
      continue;
    throw Failed(
        (folder / name).string() +
        " exists; expected --force to overwrite it, or another --dir. Nothing was written");
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const auto& [name, text] : files) {
    const std::string path = folder / name;
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << text << std::flush;
    if (!out) throw Failed(path + " cannot be written");
    std::cout << "wrote " << path << '\n';
  }
  std::cout << next_steps(flags);
  return 0;
}

}  // namespace

void add_init(Command app) {
  const Command command = app.add_subcommand(
      "init", "Write rules, a configuration and what a gateway needs", kInitHelp);
  const auto flags = std::make_shared<InitFlags>();
  command.add_option("--gateway", flags->gateway, "nginx, caddy or envoy", "NAME")
      .check(find_wrong_gateway);
  command
      .add_option("--key", flags->key, "By what clients differ: ip, user or header.NAME [ip]",
                  "KEY")
      .check(find_wrong_key);
  command.add_option("--limit", flags->limit, "How many requests each client has [100]", "N")
      .check(find_wrong_limit);
  command.add_option("--per", flags->per, "In which time [1m]", "PERIOD").check(find_wrong_period);
  command.add_option("--store", flags->store, "memory, or redis://HOST:PORT [memory]", "URL")
      .check(find_wrong_store);
  command.add_option("--dir", flags->folder, "The folder for the files", "FOLDER")
      .check(find_wrong_folder)
      .show_default();
  command.add_flag("--force", flags->force, "Overwrite files");
  command.run("init", [flags] { return write_files(*flags); });
}

}  // namespace sluice::cli
