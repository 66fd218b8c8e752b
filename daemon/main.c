/* brrd: the daemon's command line. */
#include <signal.h>
#include <sys/resource.h>

#include "base/log.h"
#include "daemon/check.h"
#include "daemon/restore.h"
#include "daemon/run_command.h"
#include "daemon/server.h"
#include "daemon/spare_memory.h"
#include "daemon/user_daemon.h"
#include "daemon/versions.h"
#include "revision.h"

static const char usage[] =
    "usage: brrd --config FILE [--set KEY=VALUE ...] [--check-config]\n"
    "       brrd --user [--set KEY=VALUE ...] [--check-config]\n"
    "       brrd --restore DIR --config FILE | --user   a daemon from a backup (`brrctl backup`); then it ends\n"
    "       brrd run JOB.yaml [--directory DIR] ...   one job without a daemon; `brrd run --help`\n"
    "       brrd --version | --help | --help-config\n"
    "\n"
    "  --config FILE     daemon.yaml; the commented default is configs/daemon.yaml\n"
    "  --user            your own daemon: configuration in ~/.config/brrd/daemon.yaml (written at the first start), results in\n"
    "                    ~/.local/state/brrd, cache in ~/.cache/brrd; brrctl finds it by itself\n"
    "  --restore DIR     check the backup in DIR, copy it to paths.results and jobs.database, where none is yet, and exit\n"
    "  --set KEY=VALUE   override one key; may be repeated\n"
    "  --check-config    check the configuration, its certificates, tokens, directories and models, print errors, and exit\n"
    "  --help-config     list every key, accepted values and default\n"
    "  --version         show the version of this program\n"
    "\n"
    "example: brrd --config configs/demo.yaml --set http.listen=none\n";

/* libuv's pool has 4 threads unless told otherwise. These are enough for all shares of services/offload.c (27) and for the files of
 * models, snapshots and leases. */
static const char pool_threads[] = "36";

enum { MAX_OVERRIDES = 64, EXIT_USAGE = 2, MAX_DESCRIPTORS = 65536 };

struct arguments {
    const char *config, *restore, *overrides[MAX_OVERRIDES + 1]; /* one more for --user */
    int n;
    bool user, check, version, help, keys;
    const char *bad; /* a word that is no option, or lacks its value */
};

static const struct {
    const char *name;
    bool value;
} options[] = {{"--config", true},   {"--set", true},   {"--restore", true}, {"--user", false},       {"--check-config", false},
               {"--version", false}, {"--help", false}, {"-h", false},       {"--help-config", false}};
enum { N_OPTIONS = sizeof options / sizeof *options };

/* Names the word and the option that was probably meant, on one line. */
static int wrong_word(const char *word, bool last) {
    const char *nearest = NULL;
    int distance = 4;
    for (int i = 0; i < N_OPTIONS; i++) {
        int d = str_distance(word, options[i].name);
        if (!d && options[i].value)
            return fprintf(stderr,
                           last ? "brrd: %s needs a value; `brrd --help` lists the options\n" : "brrd: %s was given too often\n",
                           word),
                   EXIT_USAGE;
        nearest = d < distance ? options[i].name : nearest;
        distance = d < distance ? d : distance;
    }
    fprintf(stderr, *word == '-' ? "brrd: there is no option '%s'; " : "brrd: unexpected word '%s'; ", word);
    fprintf(stderr, nearest && *word == '-' ? "did you mean %s?\n" : "`brrd --help` lists the options%s\n",
            nearest && *word == '-' ? nearest : "");
    return EXIT_USAGE;
}

static struct arguments parse(int argc, char **argv) {
    struct arguments a = {0};
    const char *value;
    for (int i = 1; i < argc; i++) {
        if (!a.config && (value = run_command_value(argc, argv, &i, "--config")))
            a.config = value;
        else if (a.n < MAX_OVERRIDES && (value = run_command_value(argc, argv, &i, "--set")))
            a.overrides[a.n++] = value;
        else if (!a.restore && (value = run_command_value(argc, argv, &i, "--restore")))
            a.restore = value;
        else if (!strcmp(argv[i], "--user"))
            a.user = true;
        else if (!strcmp(argv[i], "--check-config"))
            a.check = true;
        else if (!strcmp(argv[i], "--version"))
            a.version = true;
        else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            a.help = true;
        else if (!strcmp(argv[i], "--help-config"))
            a.keys = true;
        else if (!a.bad) /* the first: a value that follows is no mistake of its own */
            a.bad = argv[i];
    }
    return a;
}

/* Each connection and open file takes a descriptor; the system's first limit (1024) is for programs that use select(). */
static void raise_descriptors(void) {
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < MAX_DESCRIPTORS ? limit.rlim_max : MAX_DESCRIPTORS;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static pthread_t main_thread;

/* A library has ended the process on one of its threads, such as that of OpenMP for want of threads: its handlers would wait for
 * ever for threads that go on. What is lost is what a crash loses. */
static void leave_at_once(void) {
    if (pthread_equal(pthread_self(), main_thread))
        return;
    log_error("a library ended the daemon; its last words are above", NULL);
    _exit(SERVER_RESTART);
}

static int check_or_serve(struct arguments *a, struct arena *arena, struct err *err) {
    struct config config;
    int rc;
    if (a->user && (rc = user_daemon_prepare(arena, &a->config, &a->overrides[a->n++], err)))
        return rc;
    const struct config_source source = {.path = a->config, .overrides = a->overrides, .n_overrides = a->n};
    if ((rc = config_read(&source, arena, &config, err)))
        return rc;
    if (a->check)
        return check_config(&config, err);
    umask(umask(S_IRWXO) | S_IWGRP | S_IRWXO); /* results are the group's to read at most */
    if (a->restore)
        return restore_run(&config, a->restore, err);
    log_setup((enum log_level)config.log_level, config.log_format == 1);
    log_names(config.log_names);
    main_thread = pthread_self();
    atexit(leave_at_once);
    spare_memory_prepare();
    return server_run(&config, &source, err);
}

static int run(struct arguments *a) {
    OWNED(arena_done) struct arena arena = arena_of(8u << 20);
    struct err err = {0};
    char text[800];
    int rc = check_or_serve(a, &arena, &err);
    if (rc < 0)
        fprintf(stderr, "brrd: %s\n", err_text(&err, text, sizeof text));
    else if (a->check)
        printf("%s: fine\n", a->config);
    return rc > 0 ? rc : rc ? 1 : 0;
}

int main(int argc, char **argv) {
    struct arguments a = parse(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of file size is an error, as on a full volume */
    setenv("UV_THREADPOOL_SIZE", pool_threads, 0);
    raise_descriptors();
    if (argc > 1 && !strcmp(argv[1], "run"))
        return run_command(argc - 1, argv + 1);
    if (a.version) {
        printf("brrd %s (%s)\n%s\n", versions_own(), revision_name, BRR_NOTICE);
        return 0;
    }
    if (a.keys) {
        config_print_keys(stdout);
        return 0;
    }
    if (a.help) {
        fputs(usage, stdout);
        return 0;
    }
    if (a.bad)
        return wrong_word(a.bad, a.bad == argv[argc - 1]);
    if (!a.config == !a.user) {
        fprintf(stderr, "brrd: %s; `brrd --help` lists the options\n",
                a.user ? "--user and --config exclude each other" : "neither --config FILE nor --user was given");
        return EXIT_USAGE;
    }
    return run(&a);
}
