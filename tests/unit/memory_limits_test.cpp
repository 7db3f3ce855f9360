// Memory limits, read from trees like those of the kernel.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "topology/read_machine.hpp"

namespace hymn::test {
namespace {

class Memory : public testing::Test {
 protected:
  Memory() : root_(testing::TempDir() + "hymn_memory_" + std::to_string(getpid())) {
    write("/proc/meminfo",
          "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:   900 kB\nHugePages_Total: 5\n"
          "HugePages_Free:        3\nHugepagesize:       2048 kB\n");
  }
  ~Memory() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  /// Version 2, mounted as usual, and this process in `cgroup`.
  void use_version2(const std::string& cgroup) const {
    write("/proc/self/mountinfo",
          "22 1 0:2 / / rw - ext4 /dev/sda rw\n"
          "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
    write("/proc/self/cgroup", "0::" + cgroup + "\n");
  }
  void limit(const std::string& directory, const std::string& max, int used) const {
    write("/sys/fs/cgroup" + directory + "/memory.max", max + "\n");
    write("/sys/fs/cgroup" + directory + "/memory.current", std::to_string(used) + "\n");
  }
  MemoryLimits read() const { return read_memory_limits(root_); }

  std::string root_;
};

TEST_F(Memory, OfTheWholeHost) {
  write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const MemoryLimits limits = read();
  EXPECT_EQ(limits.total_bytes, 1000u * 1024);
  EXPECT_EQ(limits.available_bytes, 900u * 1024);
  EXPECT_EQ(limits.huge_page_bytes, 2048u * 1024);
  EXPECT_EQ(limits.huge_pages_free, 3u);
  EXPECT_EQ(limits.transparent_huge_pages, "madvise");
  EXPECT_FALSE(limits.cgroup_max_bytes);
  EXPECT_EQ(limits.shm_total_bytes, 0u) << "there is no /dev/shm";
  EXPECT_EQ(limits.usable_bytes(), 900u * 1024);
}

TEST_F(Memory, OfDevShmIsThatOfItsFileSystem) {
  std::filesystem::create_directories(root_ + "/dev/shm");
  const MemoryLimits limits = read();
  EXPECT_GT(limits.shm_total_bytes, 0u);
  EXPECT_LE(limits.shm_free_bytes, limits.shm_total_bytes);
}

TEST_F(Memory, IsLimitedByTheCgroupOfThisProcess) {
  use_version2("/job/step");
  limit("/job/step", "5000", 2000);
  write("/sys/fs/cgroup/job/step/memory.stat", "anon 900\ninactive_file 500\nactive_file 600\n");
  const MemoryLimits limits = read();
  EXPECT_EQ(limits.cgroup_max_bytes, 5000u);
  EXPECT_EQ(limits.cgroup_used_bytes, 1500u) << "without idle file pages";
  EXPECT_EQ(limits.usable_bytes(), 3500u);
}

TEST_F(Memory, IsLimitedByAnyCgroupAbove) {
  use_version2("/job/step/task");
  limit("/job/step/task", "max", 100);
  limit("/job/step", "9000", 100);
  limit("/job", "20000", 19500);  // a higher limit, but less is left
  const MemoryLimits limits = read();
  EXPECT_EQ(limits.cgroup_max_bytes, 20000u);
  EXPECT_EQ(limits.cgroup_used_bytes, 19500u);
  EXPECT_EQ(limits.usable_bytes(), 500u);
}

TEST_F(Memory, IsNotLimitedByCgroupsBeside) {
  use_version2("/job");
  limit("/job", "max", 0);
  limit("/other", "10", 0);
  limit("/job/below", "10", 0);
  EXPECT_FALSE(read().cgroup_max_bytes);
}

TEST_F(Memory, OfAContainerIsFoundThoughThePathIsTheHosts) {
  // Version 1: the mount begins at the container's own cgroup.
  write("/proc/self/mountinfo",
        "40 30 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  write("/proc/self/cgroup", "9:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n");
  write("/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n");
  MemoryLimits limits = read();
  EXPECT_EQ(limits.cgroup_max_bytes, 7000u);
  EXPECT_EQ(limits.cgroup_used_bytes, 2000u);
  write("/proc/self/cgroup", "4:memory:/elsewhere\n");
  limits = read();
  EXPECT_EQ(limits.cgroup_max_bytes, 7000u) << "what is mounted is ours";
  write("/proc/self/cgroup", "4:memory:/../../other\n");
  EXPECT_EQ(read().cgroup_max_bytes, 7000u);
}

TEST_F(Memory, OfVersion1KnowsHowItWritesNoLimit) {
  write("/proc/self/mountinfo", "40 30 0:31 / /cg rw - cgroup cgroup rw,cpu,memory\n");
  write("/proc/self/cgroup", "4:cpu,memory:/job\n");
  write("/cg/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(read().cgroup_max_bytes);
  write("/cg/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(read().cgroup_max_bytes, 4096u) << "the one above";
}

TEST_F(Memory, WithoutReadableFilesIsUnknown) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(read(), MemoryLimits());
  use_version2("/job");
  limit("/job", "nonsense", 5);
  write("/proc/meminfo", "MemTotal:\n: 5\n\nMemAvailable: x\n");
  EXPECT_EQ(read(), MemoryLimits());
}

TEST(MemoryOfThisHost, IsKnown) {
  const MemoryLimits limits = read_memory_limits();
  EXPECT_GT(limits.total_bytes, 0u);
  EXPECT_GT(limits.usable_bytes(), 0u);
  EXPECT_LE(limits.available_bytes, limits.total_bytes);
}

}  // namespace
}  // namespace hymn::test
