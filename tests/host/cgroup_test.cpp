// SPDX-License-Identifier: Apache-2.0
#include "core/host/cgroup.h"

#include "tests/catch.h"

#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Directories = std::vector<std::string>;

constexpr int64_t kMiB = int64_t{1} << 20;
const std::string kMountOf2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string kMountsOf1 =
    "25 1 0:24 / / rw,relatime - ext4 /dev/sda1 rw\n"
    "33 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

/// A machine's files below a directory.
struct CgroupFiles {
  CgroupFiles(const std::string& groups, const std::string& mounts) {
    add("proc/self/cgroup", groups);
    add("proc/self/mountinfo", mounts);
  }
  void add(const std::string& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    test::put(root / file, text);
  }
  CgroupLimits limits() const { return read_cgroup_limits(root.path()); }

  test::ScratchDirectory root;
};

}  // namespace

TEST_CASE("the least limit of all levels of version 2 counts") {
  const CgroupFiles files("0::/kubepods/pod7/main\n", kMountOf2);
  const std::string top = "sys/fs/cgroup/", pod = top + "kubepods/pod7/", own = pod + "main/";
  CHECK(!files.limits().memory);
  files.add(own + "memory.max", "max\n");
  files.add(own + "cpu.max", "max 100000\n");
  CHECK(!files.limits().memory);
  CHECK(!files.limits().cpus);
  files.add(pod + "memory.max", "536870912\n");
  files.add(pod + "cpu.max", "50000 100000\n");
  CHECK(files.limits().memory == 512 * kMiB);
  CHECK(files.limits().cpus == 0.5);
  CHECK(files.limits().cpus_file == "cpu.max");
  files.add(own + "memory.max", "1073741824\n");
  CHECK(files.limits().memory == 512 * kMiB);
  files.add(own + "memory.high", "268435456\n");
  CHECK(files.limits().memory == 256 * kMiB);
  files.add(top + "kubepods/cpu.max", "20000 100000");
  files.add(top + "memory.max", "1048576");
  CHECK(files.limits().memory == kMiB);
  CHECK(files.limits().cpus == 0.2);
}

TEST_CASE("kills for lack of memory are counted in the process's own group") {
  const CgroupFiles files("0::/kubepods/pod7/main\n", kMountOf2);
  CHECK(cgroup_memory_kills(files.root.path()) == 0);
  files.add("sys/fs/cgroup/memory.events", "oom 9\noom_kill 9\n");
  CHECK(cgroup_memory_kills(files.root.path()) == 9);  // the only one that can be read
  files.add("sys/fs/cgroup/kubepods/pod7/main/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n");
  CHECK(cgroup_memory_kills(files.root.path()) == 2);
  files.add("sys/fs/cgroup/kubepods/pod7/main/memory.events", "oom_kill x\n");
  CHECK(cgroup_memory_kills(files.root.path()) == 0);
  const CgroupFiles old("4:memory:/job/step\n", kMountsOf1);
  old.add("sys/fs/cgroup/memory/job/step/memory.oom_control",
          "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  CHECK(cgroup_memory_kills(old.root.path()) == 5);
}

TEST_CASE("version 1 has a hierarchy for each controller, beside those of version 2 without any") {
  const CgroupFiles files("4:memory:/job/step\n2:cpu,cpuacct:/job\n1:name=systemd:/x\n0::/unused\n",
                          kMountsOf1 + kMountOf2);
  const std::string memory = "sys/fs/cgroup/memory/", cpu = "sys/fs/cgroup/cpu,cpuacct/";
  files.add(memory + "memory.limit_in_bytes", "9223372036854771712\n");
  files.add(cpu + "cpu.cfs_period_us", "100000\n");
  files.add(cpu + "cpu.cfs_quota_us", "-1\n");
  CHECK(files.limits().memory == 9223372036854771712);  // more than any machine's
  CHECK(!files.limits().cpus);
  files.add(memory + "job/memory.limit_in_bytes", "536870912\n");
  files.add(memory + "job/step/memory.limit_in_bytes", "629145600\n");
  files.add(cpu + "job/cpu.cfs_period_us", "50000\n");
  files.add(cpu + "job/cpu.cfs_quota_us", "200000\n");
  CHECK(files.limits().memory == 512 * kMiB);
  CHECK(files.limits().cpus == 4);
  CHECK(files.limits().cpus_file == "cpu.cfs_quota_us");
}

TEST_CASE("a container finds its own group at the mount point, whatever name the group has outside") {
  const auto directories = [](const std::string& group, const std::string& root) {
    return cgroup_directories("5:memory:" + group + "\n",
                              "9 8 0:32 " + root + " /cg rw - cgroup cgroup rw,memory\n", "memory");
  };
  CHECK(directories("/", "/") == Directories{"/cg"});
  CHECK(directories("/docker/a1", "/docker/a1") == Directories{"/cg"});
  CHECK(directories("/docker/a1/docker/b", "/docker/a1") == Directories{"/cg/docker/b", "/cg/docker", "/cg"});
  // Other groups, and those outside of the namespace, cannot be seen. The mount may still be of one above.
  CHECK(directories("/docker/a12", "/docker/a1") == Directories{"/cg"});
  CHECK(directories("/../other", "/") == Directories{"/cg"});
  CHECK(directories("/a/../../etc", "/") == Directories{"/cg"});
  CHECK(directories("/a", "/..") == Directories{"/cg"});
  // Blanks in names.
  CHECK(directories("/my job", "/my\\040job") == Directories{"/cg"});
  CHECK(directories("/a:b", "/") == Directories{"/cg/a:b", "/cg"});
}

TEST_CASE("what is absent, damaged or odd is no limit") {
  CHECK(cgroup_directories("", kMountOf2, "").empty());
  CHECK(cgroup_directories("0::/a\n", "", "").empty());
  for (const char* groups : {"0", "0:", "0::", "0::a", ":::", "\n\n", "4:memory:/a\n"})
    CHECK(cgroup_directories(groups, kMountOf2, "").empty());
  for (const char* mounts : {" - ", "- cgroup2", "1 2 3 - cgroup2 c rw", "1 2 3 / point rw - cgroup2 c rw",
                             "1 2 3 / /p rw - tmpfs c rw"})
    CHECK(cgroup_directories("0::/a\n", mounts, "").empty());
  const std::string deep(100'000, '/');
  CHECK(cgroup_directories("0::" + deep, kMountOf2, "").empty());
  CHECK(cgroup_directories("0::" + deep.substr(0, 4000), kMountOf2, "").size() < 100);

  for (const char* text :
       {"", "max", "max\n", "0", "-1", " 1", "1 ", "1x", "0x10", "1e9", "99999999999999999999"})
    CHECK(!parse_cgroup_bytes(text));
  CHECK(parse_cgroup_bytes("1") == 1);
  for (const char* text :
       {"", "1", "max 100000", "1 0", "0 1", "1 1 1", "-1 100000", "1 ", " 1", "a b", "100000 max"})
    CHECK(!parse_cpu_max(text));

  const CgroupFiles files("0::/a\n4:memory:/a\n2:cpu:/a\n", kMountOf2 + kMountsOf1);
  files.add("sys/fs/cgroup/a/memory.max", std::string(5000, '9'));
  files.add("sys/fs/cgroup/a/cpu.max", std::string("1 1\0", 4));
  files.add("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "");
  files.add("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n");  // without a period
  fs::create_directories(files.root / "sys/fs/cgroup/memory.max");
  CHECK(!files.limits().memory);
  CHECK(!files.limits().cpus);
  const test::ScratchDirectory nothing;
  CHECK(!read_cgroup_limits(nothing.path()).memory);
}

}  // namespace trainer
