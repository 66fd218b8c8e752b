#include "daemon/status/machine.h"

#include <sys/resource.h>

#include "base/container.h"

static void look_at_processors(struct machine *m) {
    uint64_t t[8] = {0}, all = 0;
    OWNED_FILE FILE *f = fopen("/proc/stat", "re");
    char line[256], *at = line + strlen("cpu ");
    bool known = f && fgets(line, sizeof line, f) && str_starts(line, "cpu ");
    for (int i = 0; known && i < 8; i++)
        t[i] = strtoull(at, &at, 10);
    for (int i = 0; i < 8; i++)
        all += t[i];
    uint64_t idle = t[3] + t[4], passed = all - m->ticks;
    m->busy = known && m->ticks && passed ? 1 - (double)(idle - m->idle_ticks) / (double)passed : NAN;
    m->ticks = known ? all : 0;
    m->idle_ticks = idle;
}

static void look_at_memory(struct machine *m) {
    int64_t total = -1, available = -1;
    char line[128];
    OWNED_FILE FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f) && available < 0) {
        sscanf(line, "MemTotal: %" SCNd64, &total);         // NOLINT(cert-err34-c): the kernel's own number
        sscanf(line, "MemAvailable: %" SCNd64, &available); // NOLINT(cert-err34-c): the same
    }
    bool known = total >= 0 && available >= 0;
    struct container_limits limits;
    container_read("", &limits);
    m->memory_total = known ? total * 1024 : -1;
    m->memory_used = known ? (total - available) * 1024 : -1;
    if (limits.memory_bytes >= 0 && limits.memory_used >= 0 && limits.memory_bytes < total * 1024) {
        m->memory_total = limits.memory_bytes;
        m->memory_used = limits.memory_used;
    }
}

static void look_at_process(struct machine *m) {
    struct rusage use;
    int64_t pages = -1;
    double now = clock_s(), cpu_s = 0;
    if (!getrusage(RUSAGE_SELF, &use))
        cpu_s = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + 1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
    m->cpu = m->at_s > 0 && now > m->at_s ? (cpu_s - m->cpu_s) / (now - m->at_s) : NAN;
    m->cpu_s = cpu_s;
    m->at_s = now;
    OWNED_FILE FILE *f = fopen("/proc/self/statm", "re");
    if (!f || fscanf(f, "%*s %" SCNd64, &pages) != 1) // NOLINT(cert-err34-c): the kernel's own number
        pages = -1;
    m->resident_bytes = pages < 0 ? -1 : pages * sysconf(_SC_PAGESIZE);
}

void machine_look(struct machine *m) {
    look_at_processors(m);
    look_at_memory(m);
    look_at_process(m);
}
