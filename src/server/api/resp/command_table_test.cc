#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "server/api/resp/command.h"
#include "server/api/resp/test_handler.h"

namespace sluice::server::resp {
namespace {

TEST(Commands, MatchTheManual) {
  std::ifstream file(std::filesystem::path(SLUICE_SOURCE_DIR) / "docs/reference/commands.md",
                     std::ios::binary);
  const std::string manual{std::istreambuf_iterator<char>(file), {}};
  for (const Command& command : all_commands()) {
    EXPECT_NE(manual.find("\n" + reference(command)), manual.npos)
        << "docs/reference/commands.md lacks, or has otherwise, what `sluice docs commands` "
           "prints:\n"
        << reference(command);
  }
  for (const AlgorithmInfo& row : kAlgorithms) {
    const std::string line =
        "\n- `" + std::string(row.name) + "`: " + std::string(row.summary) + "\n";
    EXPECT_NE(manual.find(line), manual.npos) << line;
  }
}

TEST(Commands, AreSpelledInLowerCaseOnceAndHaveAHandlerOrParts) {
  for (const Command& command : all_commands()) {
    EXPECT_EQ(&command, find_command(command.name));
    EXPECT_TRUE(command.handle != nullptr || !command.parts.empty()) << command.name;
    EXPECT_FALSE(command.summary.empty());
    EXPECT_TRUE(command.most == 0 || command.most >= command.least);
    for (const Command& part : command.parts) {
      const std::string name = std::string(command.name) + "|" + std::string(part.name);
      EXPECT_EQ(&part, find_command(name)) << name;
      EXPECT_NE(part.handle, nullptr);
    }
  }
}

TEST(Commands, AreFoundInAnyCase) {
  EXPECT_EQ(find_command("Cl.ThRoTtLe")->name, "cl.throttle");
  EXPECT_EQ(find_command("CLIENT|SetName")->name, "setname");
  EXPECT_EQ(find_command("get"), nullptr);
  EXPECT_EQ(find_command("client|kill"), nullptr);
}

TEST(Commands, CountTheirArgumentsAsRedisDoes) {
  EXPECT_EQ(arity(*find_command("echo")), 2);
  EXPECT_EQ(arity(*find_command("cl.throttle")), -5);
  EXPECT_EQ(arity(*find_command("client|setinfo")), 4);
}

TEST(Synopsis, IsParsedIntoItsArguments) {
  const auto parts = read_synopsis("key [COST units] [attribute value]... [name]...");
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[0].name, "key");
  EXPECT_FALSE(parts[0].optional);
  EXPECT_EQ(parts[1].name, "units");
  EXPECT_EQ(parts[1].token, "COST");
  EXPECT_TRUE(parts[1].optional);
  EXPECT_EQ(parts[2].name, "attribute");
  EXPECT_EQ(parts[3].name, "value");
  EXPECT_TRUE(parts[3].multiple);
  EXPECT_TRUE(parts[4].optional && parts[4].multiple);
}

// Skips one element of a reply, which has as many members as its head announces.
std::size_t skip(std::string_view reply, std::size_t at) {
  const std::size_t end = reply.find("\r\n", at);
  if (end == reply.npos) throw std::runtime_error("no line");
  const long count =
      std::strtol(std::string(reply.substr(at + 1, end - at - 1)).c_str(), nullptr, 10);
  std::size_t next = end + 2;
  switch (reply[at]) {
    case '$':
    case '=': return count < 0 ? next : next + static_cast<std::size_t>(count) + 2;
    case '%':
    case '*':
    case '~':
      for (long i = 0; i < count * (reply[at] == '%' ? 2 : 1); ++i) next = skip(reply, next);
      return next;
    default: return next;
  }
}

TEST(CommandCommand, RepliesAreCompleteInBothProtocols) {
  for (const int protocol : {2, 3}) {
    TestCommands handler;
    handler.client.protocol = static_cast<std::uint8_t>(protocol);
    for (const auto& words : std::vector<std::vector<std::string_view>>{
             {"COMMAND"},
             {"COMMAND", "DOCS"},
             {"COMMAND", "DOCS", "ping", "nothing", "client|id"},
             {"COMMAND", "INFO"},
             {"COMMAND", "INFO", "ping", "nothing"},
             {"INFO"},
             {"HELLO"},
             {"CLIENT", "INFO"},
             {"CLIENT", "HELP"},
             {"RL.CHECK", "*", "path", "/login", "ip", "a"},
             {"RL.LIMIT", "k", "gcra", "5", "1s"}}) {
      const std::string reply = handler.ask(words);
      EXPECT_EQ(skip(reply, 0), reply.size()) << words[0] << reply;
    }
  }
}

TEST(CommandCommand, ReturnsTheNumberOfCommands) {
  TestCommands handler;
  EXPECT_EQ(handler.ask({"COMMAND", "COUNT"}),
            ":" + std::to_string(all_commands().size()) + "\r\n");
}

}  // namespace
}  // namespace sluice::server::resp
