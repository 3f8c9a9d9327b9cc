#include "server/rules/rules_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "server/rules/test_folder.h"

namespace sluice::server::rules_files_test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_of(const std::vector<RulesText>& texts) {
  std::vector<std::string> names;
  for (const RulesText& text : texts) names.push_back(fs::path(text.name).filename());
  return names;
}

TEST(RulesFiles, OfADirectoryAreItsYamlFilesInTheOrderOfTheirNames) {
  const TestFolder folder;
  for (const char* name : {"20-b.yml", "10-a.yaml", "30.yaml", "note.txt", "x.yaml~", "yaml"}) {
    folder.write(name, name);
  }
  const FilesRead read = read_files({folder.path()});
  EXPECT_TRUE(read.errors.empty());
  EXPECT_EQ(names_of(read.texts), (std::vector<std::string>{"10-a.yaml", "20-b.yml", "30.yaml"}));
  EXPECT_EQ(read.texts[1].text, "20-b.yml");
  EXPECT_EQ(read.texts[1].name, folder / "20-b.yml");
}

TEST(RulesFiles, OfADirectoryAreNeitherHiddenFilesNorFolders) {
  const TestFolder folder;
  folder.write("a.yaml", "");
  folder.write(".a.yaml.swp.yaml", "");
  fs::create_directory(folder / "sub.yaml");
  folder.write("sub.yaml/b.yaml", "");
  EXPECT_EQ(names_of(read_files({folder.path()}).texts), std::vector<std::string>{"a.yaml"});
}

TEST(RulesFiles, OfAConfigMapAreReadOnceThroughItsLinks) {
  const TestFolder folder;
  fs::create_directory(folder / "..2024_01_01");
  folder.write("..2024_01_01/rules.yaml", "text");
  fs::create_directory_symlink("..2024_01_01", folder / "..data");
  fs::create_symlink("..data/rules.yaml", folder / "rules.yaml");
  const FilesRead read = read_files({folder.path()});
  ASSERT_EQ(read.texts.size(), 1U);
  EXPECT_EQ(read.texts[0], (RulesText{folder / "rules.yaml", "text"}));
}

TEST(RulesFiles, KeepTheOrderOfThePathsGiven) {
  const TestFolder folder;
  fs::create_directory(folder / "d");
  folder.write("d/a.yaml", "");
  const std::string last = folder.write("z.conf", "");
  EXPECT_EQ(names_of(read_files({last, folder / "d"}).texts),
            (std::vector<std::string>{"z.conf", "a.yaml"}));
}

std::string error_of(const std::string& path) {
  const FilesRead read = read_files({path});
  EXPECT_EQ(read.errors.size(), 1U);
  return read.errors.empty() ? "" : read.errors[0].to_string();
}

TEST(RulesFiles, SayWhatCannotBeRead) {
  const TestFolder folder;
  const std::string none = folder / "none.yaml";
  EXPECT_EQ(error_of(none), none +
                                ":1:1: error: cannot be opened: No such file or directory; "
                                "expected a rules file or a directory of rules files");
  EXPECT_EQ(error_of(folder.path()), folder.path() +
                                         ":1:1: error: the directory contains no rules files; "
                                         "expected files that end in .yaml or .yml");
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error_of(pipe), pipe +
                                ":1:1: error: is neither a file nor a directory; expected a file "
                                "that can be read again when it changes");
}

TEST(RulesFiles, ALinkToNothingInADirectoryIsAnError) {
  const TestFolder folder;
  folder.write("a.yaml", "");
  fs::create_symlink("gone", folder / "b.yaml");
  const FilesRead read = read_files({folder.path()});
  ASSERT_EQ(read.errors.size(), 1U);
  EXPECT_EQ(read.errors[0].file, folder / "b.yaml");
}

TEST(RulesFiles, OverTheBoundAreNotReadWhole) {
  const TestFolder folder;
  const std::string big = folder.write("big.yaml", std::string((std::size_t{4} << 20) + 10, '#'));
  const FilesRead read = read_files({big});
  ASSERT_EQ(read.texts.size(), 1U);
  EXPECT_EQ(read.texts[0].text.size(), (std::size_t{4} << 20) + 1);
  EXPECT_FALSE(RuleSet::parse(read.texts[0].text, big));
}

// Returns whether the picture of the folder differs after `change`.
template <typename Change>
bool shows(const TestFolder& folder, const Change& change) {
  const Picture before = look_at({folder.path()});
  change();
  return look_at({folder.path()}) != before;
}

TEST(Picture, ShowsEveryKindOfChange) {
  const TestFolder folder;
  EXPECT_FALSE(shows(folder, [] {}));
  EXPECT_TRUE(shows(folder, [&] { folder.write("a.yaml", "1"); }));
  EXPECT_FALSE(shows(folder, [&] { folder.write("a.txt", "1"); }));
  EXPECT_TRUE(shows(folder, [&] { folder.write("a.yaml", "12"); }));
  EXPECT_TRUE(shows(folder, [&] {  // same size, same modification time
    const auto time = fs::last_write_time(folder / "a.yaml");
    folder.write("new", "21");
    fs::last_write_time(folder / "new", time);
    fs::rename(folder / "new", folder / "a.yaml");
  }));
  EXPECT_TRUE(shows(folder, [&] { fs::rename(folder / "a.yaml", folder / "b.yaml"); }));
  EXPECT_TRUE(shows(folder, [&] { fs::remove(folder / "b.yaml"); }));
  EXPECT_TRUE(
      shows(folder, [&] { fs::remove(folder.path() + "/a.txt"), fs::remove(folder.path()); }));
}

}  // namespace
}  // namespace sluice::server::rules_files_test
