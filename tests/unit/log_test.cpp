// Messages to the user: which ones are written, where to, and as what.
#include "base/log.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace hymn::test {
namespace {

struct Message {
  LogLevel level;
  int rank;
  std::string text;
  friend bool operator==(const Message&, const Message&) = default;
};

/// Collects what is logged while it lives, and puts the sink back that was there before.
class Recorder {
 public:
  Recorder()
      : before_(set_log_sink([this](LogLevel level, int rank, std::string_view text) {
          std::lock_guard lock(mutex_);
          messages_.push_back({level, rank, std::string(text)});
        })) {}
  ~Recorder() { set_log_sink(before_); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  const std::vector<Message>& messages() const { return messages_; }

 private:
  std::mutex mutex_;
  std::vector<Message> messages_;
  LogSink before_;
};

void write_all(const Logger& logger) {
  logger.error("e");
  logger.warning("w");
  logger.info("i");
  logger.debug("d");
}

TEST(Log, LevelsLetThroughWhatIsAtLeastAsGrave) {
  const std::vector<Message> all = {{LogLevel::error, 3, "e"},
                                    {LogLevel::warning, 3, "w"},
                                    {LogLevel::info, 3, "i"},
                                    {LogLevel::debug, 3, "d"}};
  for (const LogLevel level :
       {LogLevel::off, LogLevel::error, LogLevel::warning, LogLevel::info, LogLevel::debug}) {
    const Recorder recorder;
    const Logger logger(level, 3);
    write_all(logger);
    const auto expected = static_cast<std::ptrdiff_t>(level);
    EXPECT_EQ(recorder.messages(), std::vector(all.begin(), all.begin() + expected))
        << to_string(level);
    for (const Message& message : all)
      EXPECT_EQ(logger.enabled(message.level), message.level <= level) << to_string(level);
  }
}

TEST(Log, DefaultsToWarningsBeforeRanksAreKnown) {
  const Recorder recorder;
  write_all(Logger());
  EXPECT_EQ(recorder.messages(),
            (std::vector<Message>{{LogLevel::error, -1, "e"}, {LogLevel::warning, -1, "w"}}));
}

TEST(Log, SinksAreReplacedAndRestored) {
  const Recorder outer;
  {
    const Recorder inner;
    Logger().error("inside");
    EXPECT_EQ(inner.messages().size(), 1u);
  }
  Logger().error("outside");
  EXPECT_EQ(outer.messages(), (std::vector<Message>{{LogLevel::error, -1, "outside"}}));
}

TEST(Log, GoesToStderrUnlessTold) {
  const LogSink before = set_log_sink({});
  ::testing::internal::CaptureStderr();
  Logger(LogLevel::info, 12).info("ready");
  Logger(LogLevel::info, 12).debug("hidden");
  Logger().error("no ranks yet");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "hymn[12] info: ready\nhymn error: no ranks yet\n");
  set_log_sink(before);
}

TEST(Log, ManyThreadsMayWrite) {
  const Recorder recorder;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([rank] {
      for (int i = 0; i < 200; ++i) Logger(LogLevel::debug, rank).debug(std::to_string(i));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(recorder.messages().size(), 800u);
  std::vector<int> next(4, 0);
  for (const Message& message : recorder.messages())
    EXPECT_EQ(message.text, std::to_string(next[static_cast<std::size_t>(message.rank)]++));
}

TEST(Log, ASinkMayLogAndReplaceItself) {
  std::vector<std::string> texts;
  const LogSink before = set_log_sink([&](LogLevel, int, std::string_view text) {
    texts.emplace_back(text);
    if (text == "first") {
      Logger().error("second");
      set_log_sink([&](LogLevel, int, std::string_view later) {
        texts.push_back("replaced " + std::string(later));
      });
    }
  });
  Logger().error("first");
  Logger().error("third");
  set_log_sink(before);
  EXPECT_EQ(texts, (std::vector<std::string>{"first", "second", "replaced third"}));
}

}  // namespace
}  // namespace hymn::test
