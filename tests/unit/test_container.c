/* Limits of control groups, of both versions, from trees of files as the kernel shows them. */

#include "base/container.h"
#include "unit/cmocka_all.h"

static char root[64];

static int enter(void **state) {
    (void)state;
    str_copy(root, sizeof root, "/tmp/brr-container-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int leave(void **state) {
    (void)state;
    return fsio_remove_tree(root, NULL);
}

static void put(const char *path, const char *text) {
    char whole[512];
    assert_true(str_format(whole, sizeof whole, "%s/%s", root, path));
    assert_int_equal(fsio_mkdirs_above(whole, NULL), 0);
    assert_int_equal(fsio_write_atomic(whole, text, strlen(text), NULL), 0);
}

static void the_tightest_group_of_v2_counts(void **state) {
    (void)state;
    struct container_limits l;
    char text[400];
    put("proc/self/cgroup", "0::/pod/container\n");
    put("sys/fs/cgroup/pod/memory.max", "524288000\n");
    put("sys/fs/cgroup/pod/memory.current", "104857600\n");
    put("sys/fs/cgroup/pod/container/memory.max", "max\n");
    put("sys/fs/cgroup/pod/container/pids.max", "100\n");
    put("sys/fs/cgroup/pod/container/pids.current", "7\n");
    put("sys/fs/cgroup/pod/container/cpu.max", "150000 100000\n");
    put("sys/fs/cgroup/pod/cpu.max", "max 100000\n");
    container_read(root, &l);
    assert_int_equal(l.memory_bytes, 500 << 20);
    assert_int_equal(l.memory_used, 100 << 20);
    assert_int_equal(l.processes, 100);
    assert_int_equal(l.processes_used, 7);
    assert_true(l.processors == 1.5);
    l.address_bytes = l.user_processes = l.file_bytes = -1;
    l.files = 1024;
    assert_string_equal(container_text(&l, text, sizeof text),
                        "memory 500 MiB (100 in use), 1.5 processors, 100 processes and threads (7 in use), 1024 open files");
    assert_int_equal(container_memory(&l, INT64_C(64) << 30), 500 << 20);
    assert_int_equal(container_memory(&l, 100 << 20), 100 << 20);
    assert_int_equal(container_processors(&l, 64), 2);
    assert_int_equal(container_processors(&l, 1), 1);
}

/* Inside a container without a namespace of groups the path is the host's, and only the top of the tree is mounted. */
static void a_path_of_the_host_falls_back_to_the_mounted_top(void **state) {
    (void)state;
    struct container_limits l;
    put("proc/self/cgroup", "0::/system.slice/docker-0123.scope\n");
    put("sys/fs/cgroup/memory.max", "1073741824\n");
    container_read(root, &l);
    assert_int_equal(l.memory_bytes, 1 << 30);
    assert_int_equal(l.memory_used, -1);
    assert_true(isnan(l.processors));
}

static void groups_of_v1_are_read_by_controller(void **state) {
    (void)state;
    struct container_limits l;
    put("proc/self/cgroup", "4:memory:/docker/1\n3:pids:/docker/1\n2:cpu,cpuacct:/\n1:name=systemd:/x\n");
    put("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "536870912\n");
    put("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "1048576\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/pids/docker/1/pids.max", "max\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    container_read(root, &l);
    assert_int_equal(l.memory_bytes, 512 << 20);
    assert_int_equal(l.memory_used, 1 << 20);
    assert_int_equal(l.processes, -1);
    assert_true(l.processors == 0.5);
    assert_int_equal(container_processors(&l, 8), 1);
}

static void without_groups_there_is_no_limit(void **state) {
    (void)state;
    struct container_limits l;
    container_read(root, &l);
    assert_int_equal(l.memory_bytes, -1);
    assert_int_equal(l.processes, -1);
    assert_true(isnan(l.processors));
    l.address_bytes = -1;
    assert_int_equal(container_memory(&l, 12345), 12345);
    assert_int_equal(container_processors(&l, 5), 5);
    l.address_bytes = 1000;
    assert_int_equal(container_memory(&l, 12345), 1000);
    put("proc/self/cgroup", "0::/\ngarbage\n:::::\n");
    put("sys/fs/cgroup/memory.max", "many\n");
    put("sys/fs/cgroup/cpu.max", "x y\n");
    container_read(root, &l);
    assert_int_equal(l.memory_bytes, -1);
    assert_true(isnan(l.processors));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_tightest_group_of_v2_counts, enter, leave),
        cmocka_unit_test_setup_teardown(a_path_of_the_host_falls_back_to_the_mounted_top, enter, leave),
        cmocka_unit_test_setup_teardown(groups_of_v1_are_read_by_controller, enter, leave),
        cmocka_unit_test_setup_teardown(without_groups_there_is_no_limit, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
