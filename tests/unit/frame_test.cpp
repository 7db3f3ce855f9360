// Frames, fed in pieces of every size.
#include "control/frame.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

Bytes joined(std::initializer_list<Bytes> parts) {
  const auto hello = greeting();
  Bytes all(hello.begin(), hello.end());
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes letters(std::size_t count, char letter) { return Bytes(count, std::byte(letter)); }

std::vector<Bytes> read_in_pieces(const Bytes& stream, std::size_t piece, std::size_t limit) {
  FrameReader reader(limit);
  std::vector<Bytes> frames;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    reader.feed(std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
    while (auto one = reader.next()) frames.push_back(*one);
  }
  return frames;
}

void expect_refused(const Bytes& stream, std::size_t limit, const std::string& why) {
  FrameReader reader(limit);
  reader.feed(stream);
  for (int i = 0; i < 2; ++i) {
    try {
      while (reader.next()) continue;
      FAIL() << "nothing is thrown where expected: " << why;
    } catch (const NetworkError& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }
}

TEST(Frames, ComeOutAsTheyWentIn) {
  const std::vector<Bytes> sent = {letters(3, 'a'), {}, letters(300, 'b'), letters(1, 'c')};
  const Bytes stream = joined({frame(sent[0]), frame(sent[1]), frame(sent[2]), frame(sent[3])});
  for (std::size_t piece = 1; piece <= stream.size(); ++piece)
    EXPECT_EQ(read_in_pieces(stream, piece, 300), sent) << piece;
}

TEST(Frames, HaveAFixedFormat) {
  const Bytes one = frame(letters(258, 'x'));
  EXPECT_EQ(one.size(), 262u);
  EXPECT_EQ(one[0], std::byte{2});
  EXPECT_EQ(one[1], std::byte{1});
  EXPECT_EQ(one[2], std::byte{0});
  EXPECT_EQ(one[3], std::byte{0});
  EXPECT_EQ(greeting()[0], std::byte{'h'});
  EXPECT_EQ(greeting()[3], std::byte{'n'});
  EXPECT_EQ(greeting()[4], std::byte{1});
}

TEST(Frames, MayBeAsLongAsTheLimit) {
  EXPECT_EQ(read_in_pieces(joined({frame(letters(256, 'a'))}), 1000, 256).size(), 1u);
  expect_refused(joined({frame(letters(257, 'a'))}), 256, "257 bytes, and the limit is 256");
}

TEST(Frames, AreRefusedBeforeTheirBytesCome) {
  Bytes head = joined({frame(letters(70000, 'a'))});
  head.resize(12);
  expect_refused(head, FrameReader::default_limit, "70000 bytes, and the limit is 65536");
  EXPECT_TRUE(read_in_pieces(head, 1, 70000).empty());
}

TEST(Frames, NewLimitsHoldFromTheNextFrameOn) {
  FrameReader reader(10);
  reader.feed(joined({frame(letters(10, 'a')), frame(letters(20, 'b'))}));
  EXPECT_EQ(reader.next(), letters(10, 'a'));
  reader.set_limit(20);
  EXPECT_EQ(reader.next(), letters(20, 'b'));
  EXPECT_EQ(reader.next(), std::nullopt);
}

TEST(Frames, NeedAGreeting) {
  expect_refused(frame(letters(10, 'a')), 100, "does not speak hymn's protocol");
  expect_refused(letters(1, 'x'), 100, "does not speak hymn's protocol");
  Bytes wrong = joined({frame(letters(10, 'a'))});
  wrong[3] = std::byte{'m'};
  expect_refused(wrong, 100, "does not speak hymn's protocol");
  wrong = joined({frame(letters(10, 'a'))});
  wrong[5] = std::byte{1};
  expect_refused(wrong, 100, "version 257 of the protocol");
}

}  // namespace
}  // namespace hymn::test
