#include "daemon/config_alarms.h"

#include "base/base.h"
#include "daemon/journal/journal_entry.h"

struct step_raw {
    int64_t after_ms;
    struct option_list hooks;
};
#define S(field) offsetof(struct step_raw, field)
static const struct option rows[] = {
    {"after", OPTION_DURATION, S(after_ms), NULL, 1, 24 * 3600 * 1000, NULL, "since the alarm began, such as 2m"},
    {"hooks", OPTION_STRINGS, S(hooks), NULL, 0, 0, NULL, "names of alarms.hooks"},
};
static const struct option_table table = OPTION_TABLE(rows);

static struct hook *find_hook(struct config *c, const char *name) {
    for (int i = 0; i < c->n_hooks; i++)
        if (!strcmp(c->hooks[i].name, name))
            return &c->hooks[i];
    return NULL;
}

static int read_step(const struct yaml_node *node, const char *file, struct arena *arena, struct config *c, struct err *err) {
    struct alarms_plan *plan = &c->escalation;
    struct step_raw raw = {0};
    int rc;
    if (node->type != YAML_MAPPING)
        return options_error(node, file, err, "alarms.escalation: expected a list of {after, hooks}");
    if (plan->n == ALARMS_STEPS)
        return options_error(node, file, err, "alarms.escalation: more than %d steps", ALARMS_STEPS);
    if ((rc = options_read(&table, node, file, arena, &raw, err)))
        return rc;
    if (!raw.hooks.count)
        return options_error(node, file, err, "alarms.escalation: a step needs hooks, names of alarms.hooks");
    if (plan->n && raw.after_ms <= plan->after_ms[plan->n - 1])
        return options_error(node, file, err, "alarms.escalation: each step needs a longer `after` than the one before");
    plan->after_ms[plan->n++] = raw.after_ms;
    for (size_t i = 0; i < raw.hooks.count; i++) {
        struct hook *h = find_hook(c, raw.hooks.items[i]);
        if (!h)
            return options_error(node, file, err, "alarms.escalation: alarms.hooks has no hook named '%.60s'", raw.hooks.items[i]);
        h->steps |= 1u << plan->n;
    }
    return 0;
}

int config_read_escalation(const struct yaml_node *node, const char *file, struct arena *arena, struct config *ret,
                           struct err *err) {
    int rc;
    if (!node || yaml_is_null(node))
        return 0;
    if (node->type != YAML_SEQUENCE)
        return options_error(node, file, err, "alarms.escalation: expected a list of {after, hooks}");
    for (const struct yaml_node *n = node->child; n; n = n->next)
        if ((rc = read_step(n, file, arena, ret, err)))
            return rc;
    for (int i = 0; i < ret->n_hooks; i++)
        if (ret->hooks[i].steps >> ret->escalation.n & 1)
            ret->hooks[i].steps |= ~0u << ret->escalation.n; /* the repeats of the last step */
    return 0;
}

int config_read_beds(const struct option_list *beds, const struct yaml_node *root, const char *file, struct config *ret,
                     struct err *err) {
    if (beds->count > CONFIG_MAX_BEDS)
        return options_error(root, file, err, "beds: more than %d", CONFIG_MAX_BEDS);
    for (size_t i = 0; i < beds->count; i++) {
        if (!*beds->items[i] || strlen(beds->items[i]) >= JOURNAL_CLIENT)
            return options_error(root, file, err, "beds: '%.60s': expected names of 1 to %d bytes", beds->items[i],
                                 JOURNAL_CLIENT - 1);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(beds->items[k], beds->items[i]))
                return options_error(root, file, err, "beds: %.60s stands twice", beds->items[i]);
    }
    ret->beds = beds->items;
    ret->n_beds = (int)beds->count;
    return 0;
}
