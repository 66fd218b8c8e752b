#include "daemon/run_command.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/world_mpi.h"
#include "daemon/config.h"
#include "daemon/jobs/job_order.h"
#include "daemon/jobs/job_page.h"
#include "daemon/jobs/process.h"
#include "daemon/jobs/submission.h"
#include "daemon/versions.h"
#include "detect/builtin.h"
#include "work/report_line.h"

static const char usage[] =
    "usage: brrd run JOB.yaml [--directory DIR] [--set KEY=VALUE ...] [--config FILE] [--json]\n"
    "\n"
    "Runs one job in this process, without a daemon. Started again with the same directory it goes on from its newest checkpoint.\n"
    "SIGTERM, SIGINT and SIGUSR1 make it save and end.\n"
    "\n"
    "  --directory DIR   output and checkpoints; default: the job file's name without its ending, in the working directory\n"
    "  --set KEY=VALUE   override a key of the job file; may be repeated\n"
    "  --config FILE     a daemon.yaml: stores, paths, device, threads and memory; without one relative paths begin in the "
    "working\n"
    "                    directory and the cache is $XDG_CACHE_HOME/brrd or ~/.cache/brrd\n"
    "  --json            progress, log and result as JSON lines on the standard output\n"
    "\n"
    "exit code: 0 done, 1 failed, 2 wrong usage, 75 saved and to be continued\n"
    "\n"
    "example: brrd run configs/tiny.yaml --set data.source=file:///srv/eeg --directory /scratch/run-1\n";

enum { RANKS_MEET_MS = 5 * 60 * 1000, PATH_SIZE = 4096, ARENA_BYTES = 24 << 20, JOB_FILE_BYTES = 1 << 20, LINE_BYTES = 2 << 20 };
enum { LEAST_URGENT = 19 /* niceness */ };
enum { ORPHAN_MS = 100 * 1000 /* for the last checkpoint, without a daemon */, LOCK_LOOK_MS = 50 };
#define PROGRESS_EVERY_S 1.0

/* ---- the folder of the cache: the configured one or, while another process holds that one's lock, one in it that is removed ----
 */

struct run_cache {
    char path[4096]; /* "": not open */
    int lock;        /* descriptor; −1: none */
    bool own;        /* a folder of this process, run-PID */
};

static const char cache_prefix[] = "run-";

static int lock_of(const char *folder, int *ret, struct err *err) {
    char lock[4096];
    int rc = fsio_join(lock, sizeof lock, folder, ".lock", err);
    return rc ? rc : fsio_lock(lock, ret, err);
}

/* The process of this name has gone. One in another container may have the same number, so the lock is asked too. */
static bool is_left(const char *folder, const char *name) {
    OWNED_FD int lock = -1;
    int64_t pid;
    if (!str_starts(name, cache_prefix) || !str_to_i64(name + sizeof cache_prefix - 1, &pid) || pid <= 0)
        return false;
    return kill((pid_t)pid, 0) && errno == ESRCH && !lock_of(folder, &lock, NULL);
}

static void remove_left(const char *configured) {
    char folder[4096];
    OWNED_DIR DIR *dir = opendir(configured);
    struct dirent *entry;
    while (dir && !fsio_next_entry(dir, &entry, NULL) && entry)
        if (!fsio_join(folder, sizeof folder, configured, entry->d_name, NULL) && is_left(folder, entry->d_name))
            fsio_remove_tree(folder, NULL);
}

static int open_own(const char *configured, struct run_cache *c, struct err *err) {
    char name[32];
    int rc;
    str_format(name, sizeof name, "%s%ld", cache_prefix, (long)getpid());
    if ((rc = fsio_join(c->path, sizeof c->path, configured, name, err)) || (rc = fsio_mkdirs(c->path, err)))
        return rc;
    c->own = true;
    return lock_of(c->path, &c->lock, err);
}

static int run_cache_open(const char *configured, struct run_cache *ret, struct err *err) {
    *ret = (struct run_cache){.lock = -1};
    int rc = fsio_mkdirs(configured, err);
    if (rc)
        return rc;
    remove_left(configured);
    rc = lock_of(configured, &ret->lock, err);
    if (rc == ERR_PRECONDITION)
        return open_own(configured, ret, err);
    str_copy(ret->path, sizeof ret->path, configured);
    return rc;
}

static void run_cache_close(struct run_cache *c) {
    if (c->own)
        fsio_remove_tree(c->path, NULL);
    if (c->lock >= 0)
        close(c->lock);
}

struct arguments {
    const char *file, *directory, *config, *overrides[JOBFILE_MAX_OVERRIDES];
    const char *order; /* of a daemon, whose child this is */
    int n;
    bool json, help;
    const char *bad; /* a word that is out of place, or lacks its value */
};

struct run {
    struct arguments args;
    struct job_order order; /* args.order */
    struct job_page *page;  /* of the daemon; NULL: none */
    struct world world;     /* the ranks that a launcher has started */
    struct arena arena;
    struct config config;
    struct source_config source;
    struct device *device;
    struct draft *draft;
    char directory[PATH_SIZE];
    struct run_cache cache;
    int lock;       /* descriptor; -1: none */
    bool terminal;  /* a line of progress is drawn on it */
    double shown_s; /* when progress was shown last, and its phase */
    char phase[sizeof((struct task_progress *)0)->phase];
    char checkpoint[PATH_SIZE];
    int code; /* how the job ended */
};

static struct runner_wish wish; /* of signals, and of the daemon */

static void on_signal(int signum) {
    (void)signum;
    runner_wish_stop(&wish, STOP_SHUTDOWN);
}

const char *run_command_value(int argc, char **argv, int *i, const char *option) {
    const size_t n = strlen(option);
    const char *word = argv[*i];
    if (strncmp(word, option, n) != 0 || (word[n] && word[n] != '='))
        return NULL;
    return word[n] ? word + n + 1 : *i + 1 < argc ? argv[++*i] : NULL;
}

static struct arguments parse(int argc, char **argv) {
    struct arguments a = {0};
    const char *value;
    for (int i = 1; i < argc; i++) {
        if (!a.directory && (value = run_command_value(argc, argv, &i, "--directory")))
            a.directory = value;
        else if (!a.config && (value = run_command_value(argc, argv, &i, "--config")))
            a.config = value;
        else if (!a.order && (value = run_command_value(argc, argv, &i, "--order")))
            a.order = value;
        else if (a.n < JOBFILE_MAX_OVERRIDES && (value = run_command_value(argc, argv, &i, "--set")))
            a.overrides[a.n++] = value;
        else if (!strcmp(argv[i], "--json"))
            a.json = true;
        else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            a.help = true;
        else if (argv[i][0] != '-' && !a.file)
            a.file = argv[i];
        else if (!a.bad)
            a.bad = argv[i];
    }
    return a;
}

/* ---- what happens, for people or as JSON lines ---- */

static void clear_line(const struct run *r) {
    if (r->terminal)
        fputs("\r\x1b[K", stderr);
}

static void print_line(const struct task_report *report, const struct report_frame *frame) {
    OWNED(str_done) struct str line = str_of(LINE_BYTES);
    report_write(&line, report, frame);
    printf("%s\n", str_cstr(&line));
    fflush(stdout);
}

static void draw_progress(const struct task_progress *p) {
    bool counts = p->total > 0 && !p->steps;
    fprintf(stderr, "\r%s %" PRId64 "/%" PRId64, p->phase, counts ? p->done : p->step, counts ? p->total : p->steps);
    if (isfinite(p->loss))
        fprintf(stderr, "  loss %.4f", p->loss);
    for (int i = 0; i < TASK_MAX_FIGURES && *p->figures[i].name; i++)
        fprintf(stderr, "  %s %.4g", p->figures[i].name, p->figures[i].value);
    if (isfinite(p->eta_s) && p->eta_s > 0)
        fprintf(stderr, "  %.0f s left", p->eta_s);
    fputs("\x1b[K", stderr);
}

static void on_progress(struct run *r, const struct task_report *report) {
    const struct task_progress *p = report->progress;
    if (!strcmp(r->phase, p->phase) && clock_s() - r->shown_s < PROGRESS_EVERY_S)
        return;
    r->shown_s = clock_s();
    str_copy(r->phase, sizeof r->phase, p->phase);
    if (r->args.json)
        print_line(report, NULL);
    else if (r->terminal)
        draw_progress(p);
}

static void draw_text(const struct run *r, const struct task_report *report) {
    static const char *const prefixes[TASK_LEVELS] = {"", "warning: ", "error: "};
    const enum task_level level = report->kind == TASK_NOTICE ? TASK_WARN : report->level;
    clear_line(r);
    if (!r->world.rank)
        fprintf(stderr, "%s%s\n", prefixes[level], report->text);
    else if (level != TASK_INFO)
        fprintf(stderr, "rank %d: %s%s\n", r->world.rank, prefixes[level], report->text);
}

static void summarise(const struct run *r, const char *result) {
    const struct task_kind *kind = r->draft->file.kind;
    struct json *tree = NULL;
    char text[1024] = "done";
    if (kind->summary && result && !json_parse(result, strlen(result), "result", &tree, NULL))
        kind->summary(tree, text, sizeof text);
    json_free(tree);
    fprintf(stderr, "%s\n%s\n", text, r->directory);
}

/* Shows how the job ended; returns the exit code. */
static int show_end(struct run *r, const struct task_report *report) {
    const struct task_end *end = report->end;
    char reason[800] = "";
    const bool stopped = end->stopped != STOP_NONE && (!end->rc || end->rc == ERR_CANCELLED);
    const int code = stopped || r->world.broken ? RUN_AGAIN : end->rc ? RUN_FAILED : RUN_DONE;
    if (end->rc && !stopped)
        err_text(&end->err, reason, sizeof reason);
    else if (stopped)
        str_copy(reason, sizeof reason,
                 end->stopped == STOP_TIME_LIMIT   ? "time_limit"
                 : end->stopped == STOP_COST_LIMIT ? "cost_limit"
                                                   : "stopped");
    const struct report_frame frame = {.job = fsio_basename(r->directory),
                                       .kind = r->draft ? r->draft->file.kind->name : "",
                                       .checkpoint = *r->checkpoint ? r->checkpoint : NULL,
                                       .state = code == RUN_DONE    ? "succeeded"
                                                : code == RUN_AGAIN ? "interrupted"
                                                                    : "failed",
                                       .reason = reason};
    clear_line(r);
    if (r->world.rank && code != RUN_DONE && !stopped)
        fprintf(stderr, "rank %d: %s\n", r->world.rank, reason);
    if (r->world.rank)
        return code;
    if (r->args.json)
        print_line(report, &frame);
    else if (code == RUN_DONE)
        summarise(r, end->result);
    else if (code == RUN_AGAIN)
        fprintf(stderr, "brrd: saved (%s); the same command goes on from %s\n", reason,
                frame.checkpoint ? frame.checkpoint : "the beginning: there is no checkpoint yet");
    else
        fprintf(stderr, "brrd: %s\n", reason);
    return code;
}

static int on_report(void *ctx, const struct task_report *report) {
    struct run *r = ctx;
    const bool is_text = report->kind == TASK_LOG || report->kind == TASK_NOTICE;
    if (report->kind == TASK_CHECKPOINT)
        str_copy(r->checkpoint, sizeof r->checkpoint, report->checkpoint->path);
    if (report->kind == TASK_END)
        r->code = show_end(r, report);
    else if (is_text && (r->world.rank || !r->args.json))
        draw_text(r, report);
    else if (report->kind == TASK_PROGRESS && !r->world.rank)
        on_progress(r, report);
    else if (r->args.json && !r->world.rank)
        print_line(report, NULL);
    return 0;
}

/* ---- configuration and folders ---- */

/* Paths of a run without daemon.yaml. */
static int default_config(struct run *r, struct err *err) {
    static const char text[] = "{}";
    char cache[PATH_SIZE], data[PATH_SIZE], results[PATH_SIZE + 32], here[PATH_SIZE];
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
    if (!getcwd(here, sizeof here))
        return err_errno(err, errno, "cannot find the working directory");
    bool fits = xdg && *xdg ? str_format(cache, sizeof cache, "paths.cache=%s/brrd", xdg)
                            : str_format(cache, sizeof cache, "paths.cache=%s/.cache/brrd", home ? home : here);
    if (!fits || !str_format(data, sizeof data, "paths.data=%s", here) ||
        !str_format(results, sizeof results, "paths.results=%s", r->directory))
        return err_set(err, ERR_RANGE, "the path of the working directory or of the cache is too long");
    const char *const overrides[] = {cache, data, results, "local_paths=true"};
    const struct config_source source = {.path = "defaults", .overrides = overrides, .n_overrides = 4};
    return config_parse(&source, text, sizeof text - 1, &r->arena, &r->config, err);
}

static int read_config(struct run *r, struct err *err) {
    const struct config_source source = {.path = r->args.config};
    int rc = r->args.config ? config_read(&source, &r->arena, &r->config, err) : default_config(r, err);
    r->config.local_paths = true; /* the caller opens what its user may open */
    return rc;
}

/* DIR of --directory, or NAME of NAME.yaml. */
static int find_directory(struct run *r, struct err *err) {
    char name[PATH_SIZE];
    str_copy(name, sizeof name, fsio_basename(r->args.file));
    char *dot = strrchr(name, '.');
    if (dot && dot != name)
        *dot = '\0';
    return fsio_absolute(r->directory, sizeof r->directory, r->args.directory ? r->args.directory : name, err);
}

static int open_directory(struct run *r, struct err *err) {
    char lock[PATH_SIZE];
    int rc;
    if (r->world.rank)
        return 0;
    if ((rc = fsio_mkdirs(r->directory, err)) || (rc = fsio_join(lock, sizeof lock, r->directory, ".lock", err)))
        return rc;
    if (world_is_batch()) /* a node that was cut off may hold it; attempts have folders of their own */
        return 0;
    rc = fsio_lock(lock, &r->lock, err);
    return rc == ERR_PRECONDITION ? err_wrap(err, "another process runs a job in %s", r->directory) : rc;
}

/* The cache of the configuration, of a rank its folder in it. */
static int open_cache(struct run *r, struct err *err) {
    char own[32], rank[PATH_SIZE];
    int rc;
    if (r->world.size > 1) {
        str_format(own, sizeof own, "rank-%d", r->world.rank);
        if ((rc = fsio_join(rank, sizeof rank, r->config.cache, own, err)) ||
            !(r->config.cache = arena_strndup(&r->arena, rank, strlen(rank))))
            return rc ? rc : err_set(err, ERR_EXHAUSTED, "out of memory for the path of the cache");
    }
    if ((rc = run_cache_open(r->config.cache, &r->cache, err)))
        return rc;
    r->source = (struct source_config){.stores = r->config.stores, .n_stores = r->config.n_stores, .cache_dir = r->cache.path};
    return object_cache_new(r->cache.path, r->config.cache_max, NULL, &r->source.objects, err);
}

/* ---- the job ---- */

/* Without a daemon's tables a model is built in, a file or the URL of an object. */
static int refer_model(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    const struct run *r = ctx;
    if (str_starts(ref, "job:") || str_starts(ref, "upload:"))
        return err_set(err, ERR_INVALID, "'%s' is known to a daemon only; name the model's file or a store:// URL", ref);
    *ret = (struct model_ref){.origin = MODEL_OF_CALLER};
    ret->places = (struct places){
        .data_dir = r->config.data, .results_dir = r->directory, .local_paths = true, SAME_MEMBERS(r->config, stores, n_stores)};
    err_set(&ret->absent, ERR_NOT_FOUND, "there is no model file '%s'", ref);
    if (builtin_has(ref)) {
        int rc = builtin_write(r->config.cache, err);
        return rc ? rc : builtin_path(r->config.cache, ref, ret->path, sizeof ret->path, err);
    }
    return str_copy(ret->path, sizeof ret->path, ref) ? 0 : err_set(err, ERR_RANGE, "the path %.200s... is too long", ref);
}

static int read_job(struct run *r, struct err *err) {
    const struct places places = {
        .data_dir = r->config.data, .results_dir = r->directory, .local_paths = true, SAME_MEMBERS(r->config, stores, n_stores)};
    const struct submission_rules rules = {.places = &places, .refer_model = refer_model, .ctx = r};
    char *text = NULL;
    size_t len = 0;
    int rc = fsio_read(r->args.file, JOB_FILE_BYTES, &text, &len, err);
    if (rc)
        return rc;
    const struct submission submission = {
        .yaml = text, .file = r->args.file, .request_id = "", .overrides = r->args.overrides, .n_overrides = r->args.n};
    rc = draft_new(&rules, &submission, clock_wall_ms(), &r->draft, err);
    free(text);
    if (!rc && r->draft->file.devices > 1)
        return err_set(err, ERR_INVALID,
                       "devices: %lld needs a daemon with so many devices; without one start so many ranks (mpirun)",
                       (long long)r->draft->file.devices);
    return rc ? rc : draft_look(r->draft, err);
}

/* What must be equal for equal bits. */
struct rank_build {
    char text[600];
};

/* INVALID names the ranks whose program, libraries or processors differ. */
static int compare_builds(struct run *r, struct err *err) {
    struct rank_build own = {0}, first;
    struct service_library rows[32];
    struct device_info device;
    device_describe(r->device, &device);
    versions_describe(rows, versions_list(rows, sizeof rows / sizeof *rows), own.text, sizeof own.text / 2);
    size_t len = strlen(own.text);
    str_format(own.text + len, sizeof own.text - len, "; %s", device.is_async ? device.description : device_isa());
    first = own;
    int rc = world_broadcast(&r->world, &first, sizeof first, RANKS_MEET_MS, err);
    if (rc || !strcmp(first.text, own.text))
        return rc;
    return err_set(err, ERR_INVALID, "ranks differ, and so would their bits: rank %d has %.200s; rank 0 has %.200s", r->world.rank,
                   own.text, first.text);
}

/* The device that the job names, of whatever the configuration lists; else the first of the list. It has all threads: the job runs
 * alone. */
static int open_device(struct run *r, struct err *err) {
    const char *wanted = r->draft->file.device;
    return device_open(wanted ? wanted : r->config.devices[0], (int)r->config.cpu_threads, &r->device, err);
}

static int open_run(struct run *r, struct err *err) {
    int rc;
    if ((rc = world_launched(&r->world, err)) || (rc = find_directory(r, err)) || (rc = read_config(r, err)) ||
        (rc = read_job(r, err)) || (rc = open_directory(r, err)) || (rc = open_cache(r, err)))
        return rc;
    if ((rc = open_device(r, err)))
        return rc;
    return compare_builds(r, err);
}

static void close_run(struct run *r, bool clean) {
    world_close(&r->world, clean);
    device_close(r->device);
    draft_free(r->draft);
    object_cache_free(r->source.objects);
    run_cache_close(&r->cache);
    if (r->lock >= 0)
        close(r->lock);
    arena_done(&r->arena);
}

static int64_t memory_limit(const struct run *r) {
    struct device_info info;
    device_describe(r->device, &info);
    return r->config.memory_bytes ? r->config.memory_bytes : info.total_bytes / 10 * 9;
}

/* Without a terminal, as under a batch system, the job gives way to others of its machine, a daemon's live streams among them.
 * Linux groups processes by session, and niceness counts within a group only: where the session is the run's own, the whole group
 * gives way. A session of others, which may go on after the run, keeps its place, and the run gives way within it. */
static void give_way(void) {
    static const char least_urgent[] = "19";
    OWNED_FD int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (terminal >= 0)
        return;
    OWNED_FD int group = getsid(0) == getpid() ? open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC) : -1;
    if (group < 0 || write(group, least_urgent, sizeof least_urgent - 1) < 0)
        setpriority(PRIO_PROCESS, 0, LEAST_URGENT);
}

static void heed_signals(void) {
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    const int signums[] = {SIGTERM, SIGINT, SIGUSR1};
    for (size_t i = 0; i < sizeof signums / sizeof signums[0]; i++)
        sigaction(signums[i], &action, NULL);
}

/* ---- a child of the daemon ---- */

/* Waits for what the daemon says; meanwhile empty lines tell it that this process is not stopped. */
static void beat(void) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&in, 1, PROCESS_BEAT_MS) < 1) { /* a signal counts as time */
        putchar('\n');
        fflush(stdout);
    }
}

/* Each byte of the standard input is the digit of a stop reason. Its end is that of the daemon: a job that cannot save in time ends
 * all the same, and its next attempt begins at an earlier checkpoint. */
static void *listen_to_daemon(void *arg) {
    char letter;
    ssize_t n;
    (void)arg;
    for (beat(); (n = read(STDIN_FILENO, &letter, 1)) == 1 || (n < 0 && errno == EINTR); beat())
        if (n == 1 && letter > '0' + STOP_NONE && letter < '0' + STOP_REASONS)
            runner_wish_stop(&wish, (enum stop_reason)(letter - '0'));
    runner_wish_stop(&wish, STOP_SHUTDOWN);
    poll(NULL, 0, ORPHAN_MS);
    _exit(RUN_AGAIN);
}

/* The kernel takes the job, before the daemon, when memory is short. */
static void volunteer(void) {
    OWNED_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, "500", 3);
}

/* An earlier child of a daemon that was killed may still be saving. */
static int lock_directory(struct run *r, struct err *err) {
    char lock[PATH_SIZE];
    int rc = fsio_join(lock, sizeof lock, r->directory, ".lock", err);
    if (rc)
        return rc;
    file_cell_set(&r->page->files[r->order.place], lock);
    while ((rc = fsio_lock(lock, &r->lock, err)) == ERR_PRECONDITION && !atomic_load(&wish.now))
        poll(NULL, 0, LOCK_LOOK_MS);
    file_cell_set(&r->page->files[r->order.place], NULL);
    return rc;
}

static int open_order(struct run *r, struct err *err) {
    pthread_t thread;
    int rc;
    volunteer();
    r->args.json = true;
    if ((rc = pthread_create(&thread, NULL, listen_to_daemon, NULL)))
        return err_errno(err, rc, "cannot start a thread");
    pthread_detach(thread);
    if ((rc = job_order_read(r->args.order, &r->arena, &r->order, err)))
        return rc;
    if (r->order.place < 0 || r->order.place >= TURNS_MAX)
        return err_set(err, ERR_INVALID, "%s: place %lld does not exist", r->args.order, (long long)r->order.place);
    const struct config_source source = {.path = r->order.config, .overrides = r->order.sets, .n_overrides = r->order.n_sets};
    if ((rc = config_read(&source, &r->arena, &r->config, err)) || (rc = job_page_open(r->order.page, &r->page, err)))
        return rc;
    r->config.cache = r->order.cache;
    r->config.memory_bytes = r->order.memory_limit_bytes;
    r->config.default_wall_clock_ms = r->order.default_wall_clock_ms;
    str_copy(r->directory, sizeof r->directory, r->order.job.directory);
    if ((rc = lock_directory(r, err)) || (rc = fsio_mkdirs(r->order.cache, err)) || (rc = open_cache(r, err)) ||
        (rc = device_open(r->order.device, (int)r->order.threads, &r->device, err)))
        return rc;
    device_share_live(r->device, &r->page->live_batches, false);
    return 0;
}

/* The job did not begin: for the daemon, with its code, and whether it was to stop anyway. */
static void report_failure(struct run *r, int rc, const struct err *err) {
    struct task_end end = {.rc = rc, .err = *err, .energy_j = NAN, .stopped = (enum stop_reason)atomic_load(&wish.stop)};
    if (end.stopped != STOP_NONE)
        end.rc = ERR_CANCELLED;
    on_report(r, &(struct task_report){.kind = TASK_END, .end = &end});
}

static int run_order(struct run *r) {
    const struct runner_config config = {SAME_MEMBERS(*r, device, source),
                                         .default_wall_clock_ms = r->config.default_wall_clock_ms,
                                         .price_per_hour = (double)r->order.price_micros / 1e6,
                                         .currency = r->config.currency,
                                         .memory_limit_bytes = r->order.memory_limit_bytes,
                                         .file = &r->page->files[r->order.place],
                                         .turn = {&r->page->turns, (int)r->order.place}};
    const struct runner_owner owner = {on_report, r};
    runner_run(&config, &r->order.job, &owner, &wish);
    return r->code;
}

static int run_job(struct run *r) {
    const struct job *job = r->draft->job;
    const struct runner_config config = {.version = versions_own(),
                                         SAME_MEMBERS(*r, device, source),
                                         SAME_MEMBERS(r->config, default_wall_clock_ms, price_per_hour, currency),
                                         .memory_limit_bytes = memory_limit(r),
                                         .world = &r->world,
                                         .contended = world_is_batch()};
    const struct runner_job order = {
        fsio_basename(r->directory), r->directory, job->data_root, job->yaml, job->file, job->overrides, NULL, 0};
    const struct runner_owner owner = {on_report, r};
    runner_run(&config, &order, &owner, &wish);
    return r->code;
}

int run_command(int argc, char **argv) {
    struct run r = {
        .args = parse(argc, argv), .world = {.size = 1}, .lock = -1, .cache = {.lock = -1}, .terminal = isatty(STDERR_FILENO)};
    struct err err = {0};
    char text[800];
    if (r.args.help) {
        fputs(usage, stdout);
        return RUN_DONE;
    }
    if (r.args.bad || (!r.args.file && !r.args.order)) {
        fprintf(stderr, "brrd run: %s%s; `brrd run --help` lists the options\n", r.args.bad ? r.args.bad : "no job file was given",
                r.args.bad ? ": not an option, given twice, or without its value" : "");
        return RUN_USAGE;
    }
    r.terminal = r.terminal && !r.args.json && !r.world.rank;
    arena_init(&r.arena, ARENA_BYTES);
    runner_wish_init(&wish);
    heed_signals();
    if (r.args.order)
        signal(SIGPIPE, SIG_IGN); /* the daemon may be gone */
    if (!r.args.order)
        give_way();
    int rc = r.args.order ? open_order(&r, &err) : open_run(&r, &err);
    int code = r.world.broken ? RUN_AGAIN : RUN_FAILED;
    if (rc && r.args.order)
        report_failure(&r, rc, &err);
    else if (rc)
        fprintf(stderr, "brrd: %s\n", err_text(&err, text, sizeof text));
    else
        code = r.args.order ? run_order(&r) : run_job(&r);
    close_run(&r, !rc && (code == RUN_DONE || code == RUN_AGAIN));
    return code;
}
