#include "daemon/config_executors.h"

enum { EXECUTOR_SLURM, EXECUTOR_PROCESS };
struct executor_raw {
    int kind; /* EXECUTOR_… */
    struct slurm_config slurm;
    struct option_list environment;
};
#define E(field) offsetof(struct executor_raw, field)
static const struct option rows[] = {
    {"kind", OPTION_ENUM, E(kind), NULL, 0, 0, "slurm|process", "what it is"},
    {"partition", OPTION_STRING, E(slurm.partition), "null", 0, 0, NULL, "of Slurm; default: Slurm's own"},
    {"template", OPTION_STRING, E(slurm.script), "/usr/share/brrd/slurm/train.sbatch", 0, 0, NULL, "the batch script"},
    {"config", OPTION_STRING, E(slurm.config), "null", 0, 0, NULL,
     "a daemon.yaml that the nodes see, for the stores, device and threads of the ranks"},
    {"environment", OPTION_STRINGS, E(environment),
     "[PATH, HOME, USER, LOGNAME, SHELL, LANG, 'LC_*', TZ, LD_LIBRARY_PATH, 'XDG_*', 'SLURM_*', 'BRR*', 'OMP_*', 'OMPI_*', "
     "'PRTE_*', 'NCCL_*', 'AWS_*', '*_proxy', '*_PROXY']",
     0, 0, NULL, "the daemon's variables that Slurm's commands and jobs get: names, or patterns such as 'AWS_*'"},
    {"jobs", OPTION_I64, E(slurm.jobs), "4", 1, CONFIG_MAX_REMOTE, NULL, "how many jobs of this daemon it has at a time"},
};
static const struct option_table table = OPTION_TABLE(rows);

static bool is_device(const char *name) { return !strncmp(name, "cpu", 3) || !strncmp(name, "cuda", 4); }

int config_executor(const struct yaml_node *node, const char *file, struct arena *arena, struct config *c, struct err *err) {
    struct executor_raw raw = {0};
    int64_t jobs = 0;
    int rc;
    if (node->type != YAML_MAPPING)
        return options_error(node, file, err, "executors: expected NAME: {kind: slurm, …}");
    if ((rc = options_read(&table, node, file, arena, &raw, err)) ||
        (rc = options_check_patterns(node, file, "executors: environment", &raw.environment, err)))
        return rc;
    if (strcmp(node->key, "local") == 0) {
        c->jobs_in_processes = raw.kind == EXECUTOR_PROCESS;
        return c->jobs_in_processes ? 0 : options_error(node, file, err, "executors: local is of kind process, or not listed");
    }
    if (raw.kind == EXECUTOR_PROCESS)
        return options_error(node, file, err, "executors: %.40s: only `local` is of kind process", node->key);
    if (c->n_clusters == CONFIG_MAX_CLUSTERS)
        return options_error(node, file, err, "more than %d executors", CONFIG_MAX_CLUSTERS);
    if (is_device(node->key) || strlen(node->key) >= 32)
        return options_error(node, file, err, "executors: '%.40s' is the name of a device, or longer than 31 bytes", node->key);
    if (*raw.slurm.script != '/' || (raw.slurm.config && *raw.slurm.config != '/'))
        return options_error(node, file, err, "executors: %s: template and config are absolute paths", node->key);
    raw.slurm.name = node->key;
    if (!(raw.slurm.environment = option_list_words(arena, &raw.environment)))
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", file);
    c->clusters[c->n_clusters++] = raw.slurm;
    for (int i = 0; i < c->n_clusters; i++)
        jobs += c->clusters[i].jobs;
    if (jobs > CONFIG_MAX_REMOTE)
        return options_error(node, file, err, "executors: more than %d jobs at a time in all", CONFIG_MAX_REMOTE);
    return 0;
}
