#include "base/container.h"

#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { PATH_SIZE = 4096, VALUE_SIZE = 64 };
static const double UNLIMITED_V1 = 0x1p60; /* v1 writes a number near 2^63 */

/* The first line of a file of a group, "" where it cannot be read. */
static void read_value(const char *folder, const char *file, char ret[VALUE_SIZE]) {
    char path[PATH_SIZE];
    *ret = '\0';
    OWNED_FILE FILE *f = str_format(path, sizeof path, "%s/%s", folder, file) ? fopen(path, "re") : NULL;
    if (f && fgets(ret, VALUE_SIZE, f))
        ret[strcspn(ret, "\n")] = '\0';
}

/* -1 for "max", for what is no number, and for the "no limit" of v1. */
static int64_t read_number(const char *folder, const char *file) {
    char text[VALUE_SIZE];
    int64_t value = -1;
    read_value(folder, file, text);
    return str_to_i64(text, &value) && value >= 0 && (double)value < UNLIMITED_V1 ? value : -1;
}

static bool tighter(int64_t value, int64_t than) { return value >= 0 && (than < 0 || value < than); }

static void take_memory(struct container_limits *l, const char *folder, const char *limit, const char *used) {
    int64_t bytes = read_number(folder, limit);
    if (!tighter(bytes, l->memory_bytes))
        return;
    l->memory_bytes = bytes;
    l->memory_used = read_number(folder, used);
}

static void take_processes(struct container_limits *l, const char *folder) {
    int64_t most = read_number(folder, "pids.max");
    if (!tighter(most, l->processes))
        return;
    l->processes = most;
    l->processes_used = read_number(folder, "pids.current");
}

static void take_quota(struct container_limits *l, double quota, double period) {
    if (quota > 0 && period > 0 && !(quota / period >= l->processors))
        l->processors = quota / period;
}

static void take_v2(struct container_limits *l, const char *folder) {
    char text[VALUE_SIZE];
    double quota = 0, period = 0;
    take_memory(l, folder, "memory.max", "memory.current");
    take_processes(l, folder);
    read_value(folder, "cpu.max", text);
    char *space = strchr(text, ' ');
    if (!space)
        return;
    *space = '\0';
    if (str_to_f64(text, &quota) && str_to_f64(space + 1, &period))
        take_quota(l, quota, period);
}

static void take_v1(struct container_limits *l, const char *folder) {
    take_memory(l, folder, "memory.limit_in_bytes", "memory.usage_in_bytes");
    take_processes(l, folder);
    take_quota(l, (double)read_number(folder, "cpu.cfs_quota_us"), (double)read_number(folder, "cpu.cfs_period_us"));
}

/* Calls take for the group and all above it. In a container the path may be the host's, of which only the top is to be seen. */
static void walk_up(struct container_limits *l, const char *mount, const char *group,
                    void (*take)(struct container_limits *l, const char *folder)) {
    char folder[PATH_SIZE];
    size_t top = strlen(mount);
    if (!str_format(folder, sizeof folder, "%s%s", mount, strcmp(group, "/") ? group : ""))
        return;
    for (;;) {
        take(l, folder);
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= top || !slash)
            return;
        *slash = '\0';
    }
}

/* One line of /proc/self/cgroup: "0::/group" of v2, "4:memory:/group" of v1. */
static void read_line(struct container_limits *l, const char *root, char *line) {
    static const char *const names[] = {"memory", "pids", "cpu", "cpu,cpuacct", "cpuacct,cpu"};
    char mount[PATH_SIZE];
    char *names_at = strchr(line, ':'), *group = names_at ? strchr(names_at + 1, ':') : NULL;
    if (!group)
        return;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    names_at++;
    if (!*names_at && str_format(mount, sizeof mount, "%s/sys/fs/cgroup", root))
        walk_up(l, mount, group, take_v2);
    for (size_t i = 0; *names_at && i < sizeof names / sizeof *names; i++)
        if (!strcmp(names_at, names[i]) && str_format(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, names[i]))
            walk_up(l, mount, group, take_v1);
}

static int64_t limit_of(int resource) {
    struct rlimit limit;
    return getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY ? -1 : (int64_t)limit.rlim_cur;
}

void container_read(const char *root, struct container_limits *ret) {
    char path[PATH_SIZE], line[PATH_SIZE];
    *ret = (struct container_limits){.memory_bytes = -1,
                                     .memory_used = -1,
                                     .processes = -1,
                                     .processes_used = -1,
                                     .processors = NAN,
                                     .address_bytes = limit_of(RLIMIT_AS),
                                     .user_processes = limit_of(RLIMIT_NPROC),
                                     .files = limit_of(RLIMIT_NOFILE),
                                     .file_bytes = limit_of(RLIMIT_FSIZE)};
    OWNED_FILE FILE *f = str_format(path, sizeof path, "%s/proc/self/cgroup", root) ? fopen(path, "re") : NULL;
    while (f && fgets(line, sizeof line, f))
        read_line(ret, root, line);
}

int64_t container_memory(const struct container_limits *limits, int64_t machine_bytes) {
    int64_t bytes = tighter(limits->memory_bytes, machine_bytes) ? limits->memory_bytes : machine_bytes;
    return tighter(limits->address_bytes, bytes) ? limits->address_bytes : bytes;
}

int container_processors(const struct container_limits *limits, int processors) {
    int most = limits->processors < processors ? (int)ceil(limits->processors) : processors;
    return most < 1 ? 1 : most;
}

int container_processors_here(void) {
    struct container_limits limits;
    cpu_set_t set;
    container_read("", &limits);
    const bool known = !sched_getaffinity(0, sizeof set, &set);
    return container_processors(&limits, known ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN));
}

const char *container_text(const struct container_limits *l, char *buf, size_t size) {
    OWNED(str_done) struct str s = str_of(size - 1);
    if (l->memory_bytes >= 0)
        str_printf(&s, ", memory %.0f MiB", (double)l->memory_bytes / 0x1p20);
    if (l->memory_bytes >= 0 && l->memory_used >= 0)
        str_printf(&s, " (%.0f in use)", (double)l->memory_used / 0x1p20);
    if (!isnan(l->processors))
        str_printf(&s, ", %.3g processors", l->processors);
    if (l->processes >= 0)
        str_printf(&s, ", %lld processes and threads", (long long)l->processes);
    if (l->processes >= 0 && l->processes_used >= 0)
        str_printf(&s, " (%lld in use)", (long long)l->processes_used);
    if (l->address_bytes >= 0)
        str_printf(&s, ", address space %.0f MiB", (double)l->address_bytes / 0x1p20);
    if (l->user_processes >= 0)
        str_printf(&s, ", %lld processes of this user", (long long)l->user_processes);
    if (l->files >= 0)
        str_printf(&s, ", %lld open files", (long long)l->files);
    if (l->file_bytes >= 0)
        str_printf(&s, ", files of %.0f MiB", (double)l->file_bytes / 0x1p20);
    str_copy(buf, size, s.len ? str_cstr(&s) + 2 : "no limits");
    return buf;
}
