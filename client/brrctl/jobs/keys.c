/* keys [KIND]: the kinds of job, and what their files may say. */

#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "work/jobfile.h"

static bool has_table(const struct task_kind *kind, const struct option_table *table) {
    const struct option_table *tables[JOBFILE_MAX_TABLES];
    int n = jobfile_tables(kind, tables);
    for (int i = 0; i < n; i++)
        if (tables[i] == table)
            return true;
    return false;
}

int brrctl_key_tables(const struct task_kind *only, const struct option_table *ret[BRRCTL_MAX_TABLES]) {
    int n = 0;
    for (int k = 0; k < task_kind_count; k++) {
        const struct option_table *tables[JOBFILE_MAX_TABLES];
        int n_tables = only && task_kinds[k] != only ? 0 : jobfile_tables(task_kinds[k], tables);
        for (int t = 0; t < n_tables; t++) {
            int at = 0;
            while (at < n && ret[at] != tables[t])
                at++;
            if (at == n && n < BRRCTL_MAX_TABLES)
                ret[n++] = tables[t];
        }
    }
    return n;
}

static void print_json(const struct option_table *table) {
    for (size_t i = 0; i < table->count; i++) {
        if (table->rows[i].type == OPTION_NOTICE)
            continue;
        struct json_writer *w = output_begin();
        options_put_json(&table->rows[i], w);
        json_begin_array(w, "kinds");
        for (int k = 0; k < task_kind_count; k++)
            if (has_table(task_kinds[k], table))
                json_put_str(w, NULL, task_kinds[k]->name);
        json_end(w, ']');
        output_end(w);
    }
}

/* Above the keys of a table, when those of all kinds are shown: whose they are. */
static void print_owners(const struct option_table *table) {
    fputs("\njobs of kind", stdout);
    for (int k = 0; k < task_kind_count; k++)
        if (has_table(task_kinds[k], table))
            printf(" %s", task_kinds[k]->name);
    putchar('\n');
}

static int cmd_keys(const struct arguments *o) {
    const struct option_table *tables[BRRCTL_MAX_TABLES];
    const struct task_kind *only = o->n_args ? task_kind_find(o->args[0]) : NULL;
    char names[200];
    if (o->n_args && !only) {
        fprintf(stderr, "brrctl: there is no kind of job '%s'; expected %s\n", o->args[0], task_kind_names(names, sizeof names));
        return EXIT_USAGE;
    }
    for (int k = 0; k < task_kind_count && !o->json; k++)
        if (!only || task_kinds[k] == only)
            printf("%-10s %s\n", task_kinds[k]->name, task_kinds[k]->help);
    int n = brrctl_key_tables(only, tables);
    for (int i = 0; i < n; i++) {
        if (!o->json && !only)
            print_owners(tables[i]);
        if (o->json)
            print_json(tables[i]);
        else
            options_print(tables[i], stdout);
    }
    return 0;
}

BRRCTL_COMMAND(keys, "[KIND]", &arguments_local, cmd_keys,
               "list the kinds of job and every key of their files; works without a daemon",
               "Shows meaning, accepted values and default of each key, for one kind or all; docs/jobs.md has the same as tables.\n"
               "example: brrctl keys train | grep -A1 data.balance");
