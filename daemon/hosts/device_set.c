#include "daemon/hosts/device_set.h"

struct place {
    struct device_hosts *hosts;
    struct device_info info;
    bool held;                            /* it has gone bad */
    int64_t promised_bytes, before_bytes; /* to the running jobs; allocated when the first of them began */
    int jobs;                             /* that have been promised memory */
};

struct device_set {
    struct device_set_config config;
    struct place places[DEVICE_SET_MAX];
    int n; /* started */
};

/* ---- life ---- */

/* CPU devices share the threads evenly; each has at least one. */
static int threads_of(int all, int shares, int place) {
    int own = all / shares + (place < all % shares);
    return own > 0 ? own : 1;
}

static int start_all(struct device_set *set, struct err *err) {
    const struct device_set_config *c = &set->config;
    int shares = 0, cpu = 0, all = c->threads;
    int rc;
    for (int i = 0; i < c->n; i++)
        shares += str_starts(c->names[i], "cpu");
    struct device_info machine;
    if (!all && shares > 1 && (rc = device_probe("cpu", &machine, err)))
        return rc;
    if (!all && shares > 1)
        all = machine.threads;
    for (; set->n < c->n; set->n++) {
        struct device_hosts_config hosts = c->hosts;
        bool is_cpu = str_starts(c->names[set->n], "cpu");
        hosts.device = c->names[set->n];
        hosts.shares = shares;
        hosts.threads = is_cpu && shares > 1 ? threads_of(all, shares, cpu++) : all;
        struct place *p = &set->places[set->n];
        if ((rc = device_hosts_start(&hosts, &p->hosts, err)))
            return rc;
        device_hosts_describe(p->hosts, &p->info);
    }
    return 0;
}

int device_set_start(const struct device_set_config *config, struct device_set **ret, struct err *err) {
    struct device_set *set = calloc(1, sizeof *set);
    if (!set)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the devices");
    set->config = *config;
    int rc = start_all(set, err);
    return GIVEN(ret, set, device_set_stop, rc);
}

void device_set_stop(struct device_set *set) {
    if (!set)
        return;
    for (int i = 0; i < set->n; i++)
        device_hosts_stop(set->places[i].hosts);
    free(set);
}

/* ---- the devices ---- */

int device_set_count(const struct device_set *set) { return set ? set->n : 0; }
struct device_hosts *device_set_at(const struct device_set *set, int device) {
    return set->places[device].hosts;
}
const char *device_set_name(const struct device_set *set, int device) { return set->places[device].info.name; }

char *device_set_names(const struct device_set *set, uint32_t devices, struct arena *arena) {
    char names[DEVICE_SET_MAX * 34] = "";
    for (int i = 0; i < device_set_count(set); i++)
        if (devices >> i & 1) {
            const size_t len = strlen(names);
            str_format(names + len, sizeof names - len, "%s%s", len ? ", " : "", device_set_name(set, i));
        }
    return arena_strdup(arena, names);
}
void device_set_hold(struct device_set *set, int device) { set->places[device].held = true; }
bool device_set_is_held(const struct device_set *set, int device) { return set->places[device].held; }

int device_set_find(const struct device_set *set, const char *name, int *ret, struct err *err) {
    struct str names = str_of(1024);
    *ret = DEVICE_ANY;
    if (!*name)
        return 0;
    for (int i = 0; i < set->n; i++)
        if (!strcmp(set->places[i].info.name, name)) {
            *ret = i;
            return 0;
        }
    for (int i = 0; i < set->n; i++)
        str_printf(&names, "%s%s", i ? ", " : "", set->places[i].info.name);
    int rc = err_set(err, ERR_NOT_FOUND, "device: this daemon has no device '%.40s'; expected %s", name, str_cstr(&names));
    str_done(&names);
    return rc;
}

int device_set_lost(const struct device_set *set) {
    for (int i = 0; i < set->n; i++)
        if (device_hosts_lost(set->places[i].hosts))
            return i;
    return DEVICE_ANY;
}

bool device_set_stalled(const struct device_set *set) {
    for (int i = 0; i < set->n; i++)
        if (device_hosts_stalled(set->places[i].hosts))
            return true;
    return false;
}

bool device_set_waits(const struct device_set *set, char ret_text[HOST_WAITS_TEXT]) {
    for (int i = 0; i < set->n; i++)
        if (device_hosts_waits(set->places[i].hosts, ret_text))
            return true;
    return false;
}

/* ---- orders ---- */

bool device_set_post(struct device_set *set, int device, enum host_kind kind, struct message *order) {
    return device_hosts_post(set->places[device].hosts, kind, order);
}

struct message *device_set_take(struct device_set *set, enum host_kind kind, int *ret_device) {
    for (*ret_device = 0; *ret_device < set->n; ++*ret_device) {
        struct message *m = device_hosts_take(set->places[*ret_device].hosts, kind);
        if (m)
            return m;
    }
    return NULL;
}

/* ---- memory ---- */

static int64_t allocated(const struct place *p) {
    int64_t live = 0, count = 0;
    device_alloc_stats(device_hosts_device(p->hosts), &live, &count);
    return live;
}

void device_set_room(const struct device_set *set, int device, struct device_room *ret) {
    const struct place *p = &set->places[device];
    const int64_t used = allocated(p), before = set->config.jobs_in_processes ? used : p->before_bytes;
    const int64_t promised = p->promised_bytes ? before + p->promised_bytes : 0;
    *ret = (struct device_room){.limit_bytes = device_hosts_memory_limit(p->hosts),
                                .used_bytes = used,
                                .reserved_bytes = promised > used ? promised - used : 0};
}

void device_set_reserve(struct device_set *set, int device, int64_t bytes) {
    struct place *p = &set->places[device];
    if (!p->jobs++)
        p->before_bytes = allocated(p);
    p->promised_bytes += bytes;
}

void device_set_release(struct device_set *set, int device, int64_t bytes) {
    struct place *p = &set->places[device];
    if (!p->jobs)
        return;
    p->promised_bytes = --p->jobs ? p->promised_bytes - bytes : 0;
}
