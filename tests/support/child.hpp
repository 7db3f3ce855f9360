// A process of its own within a test, made by fork().
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace hymn::test {

class Child {
 public:
  /// The new process runs `body` and ends. What it returns, or throws, is its report; a test's
  /// expectations do not work there.
  explicit Child(const std::function<std::string()>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();  ///< kills it

  pid_t pid() const { return pid_; }
  /// Waits for its end; "killed by signal 7" where it did not come to report.
  std::string report();
  void kill();

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
  bool ended_ = false;
  std::string report_;
};

/// One end sends words to the other, from process to process. A word is up to 4000 bytes.
class Wire {
 public:
  Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire();
  void send(const std::string& word) const;
  std::string receive() const;  ///< waits; throws when nothing comes within 20 s

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace hymn::test
