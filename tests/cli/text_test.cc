#include "cli/text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/table.h"

namespace kvrelay::cli {
namespace {

TEST(Utf8, FindsTheFirstBadByte) {
  EXPECT_FALSE(FindInvalidUtf8(""));
  EXPECT_FALSE(FindInvalidUtf8("a\xC3\xA9 \xED\x95\x9C \xF0\x9F\x98\x80"));
  EXPECT_EQ(FindInvalidUtf8("ab\xFF"), 2u);
  EXPECT_EQ(FindInvalidUtf8("a\xC3"), 1u) << "cut short";
  EXPECT_EQ(FindInvalidUtf8("\xC0\x80"), 0u) << "overlong";
  EXPECT_EQ(FindInvalidUtf8("\xE0\x80\x80"), 0u) << "overlong";
  EXPECT_EQ(FindInvalidUtf8("\xED\xA0\x80"), 0u) << "surrogate";
  EXPECT_EQ(FindInvalidUtf8("\xF4\x90\x80\x80"), 0u) << "above U+10FFFF";
  EXPECT_EQ(FindInvalidUtf8("\x80"), 0u);
}

TEST(DisplayWidth, CountsColumns) {
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("\xC3\xA9"), 1u);
  EXPECT_EQ(DisplayWidth("\xED\x95\x9C"), 2u) << "a Korean syllable";
  EXPECT_EQ(DisplayWidth("\xF0\x9F\x98\x80"), 2u) << "an emoji";
  EXPECT_EQ(DisplayWidth("e\xCC\x81"), 1u) << "a combining accent";
  EXPECT_EQ(DisplayWidth("\xFF\xFE"), 2u) << "not UTF-8";
}

TEST(Quote, EscapesWhatWouldHideOrDriveTheTerminal) {
  EXPECT_EQ(Quote(" \"a\\\n\t\r"), R"(" \"a\\\n\t\r")");
  EXPECT_EQ(Quote("\033[31m\x7F\xC2\x9B"), R"("\x1b[31m\x7f\x9b")");
  EXPECT_EQ(Quote("\xED\x95\x9C"), "\"\xED\x95\x9C\"");
  EXPECT_EQ(Quote("a\xFF"), R"("a\xff")");
}

TEST(SafeForTerminal, DropsControlCharacters) {
  EXPECT_EQ(SafeForTerminal("a\033[31m\nb\tc\x07\xC2\x9B\xED\x95\x9C"), "a[31m\nb\tc\xED\x95\x9C");
}

TEST(Format, Numbers) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(18446744073709551615u), "18,446,744,073,709,551,615");
  EXPECT_EQ(FormatMilliseconds(0), "0.0 ms");
  EXPECT_EQ(FormatMilliseconds(12345.67), "12,345.7 ms");
  EXPECT_EQ(FormatMilliseconds(-1.5), "-1.5 ms");
  EXPECT_EQ(FormatQuantity(0, "B"), "0 B");
  EXPECT_EQ(FormatQuantity(999, "B"), "999 B");
  EXPECT_EQ(FormatQuantity(1000, "B"), "1.00 kB");
  EXPECT_EQ(FormatQuantity(12'349, "B"), "12.3 kB");
  EXPECT_EQ(FormatQuantity(999'600, "B"), "1.00 MB");
  EXPECT_EQ(FormatQuantity(3.21e9, "FLOP"), "3.21 GFLOP");
  EXPECT_EQ(FormatQuantity(1.25e19, "FLOP"), "12500 PFLOP");
  EXPECT_EQ(FormatRange(0, 0), "none");
  EXPECT_EQ(FormatRange(3, 4), "3");
  EXPECT_EQ(FormatRange(0, 3), "0..2");
}

// Whatever a peer sends as a duration can be shown.
TEST(Format, HostileDurations) {
  google::protobuf::Duration duration;
  duration.set_seconds(INT64_MAX);
  duration.set_nanos(INT32_MAX);
  EXPECT_FALSE(FormatMilliseconds(Milliseconds(duration)).empty());
  duration.set_seconds(INT64_MIN);
  EXPECT_FALSE(FormatMilliseconds(Milliseconds(duration)).empty());
}

TEST(Table, AlignsAndColours) {
  Table table({{"left"}, {"n", Align::kRight}, {"last"}});
  table.AddRow({{"\xED\x95\x9C"}, {"1"}, {"x", Color::kOrange}});
  table.AddRow({{"longer"}, {"123"}, {""}});
  std::ostringstream plain;
  table.Print(plain, false);
  EXPECT_EQ(plain.str(),
            "left      n  last\n"
            "------  ---  ----\n"
            "\xED\x95\x9C        1  x\n"
            "longer  123\n");
  std::ostringstream colored;
  table.Print(colored, true);
  EXPECT_NE(colored.str().find("\033[38;5;208mx\033[0m\n"), std::string::npos) << colored.str();
}

}  // namespace
}  // namespace kvrelay::cli
