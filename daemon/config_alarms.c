#include "daemon/config_alarms.h"

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

int config_step(const struct yaml_node *node, const char *file, struct arena *arena, struct config *c, struct err *err) {
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

/* ---- beds ---- */

struct bed_raw {
    const char *name;
    int alarms; /* 0 on, 1 off */
    int64_t least_ms;
};
#define B(field) offsetof(struct bed_raw, field)
static const struct option bed_rows[] = {
    {"name", OPTION_STRING, B(name), NULL, 0, 0, NULL, "of the client that streams it"},
    {"alarms", OPTION_ENUM, B(alarms), "on", 0, 0, "on|off", "off: nobody is told of the alarms of its patient"},
    {"least", OPTION_DURATION, B(least_ms), "0s", 0, 10 * 60 * 1000, NULL,
     "people are told of an alarm when it has been on for so long, and not of a shorter one"},
};
static const struct option_table bed_table = OPTION_TABLE(bed_rows);

static int read_bed(const struct yaml_node *node, const char *file, struct arena *arena, struct config *c, struct err *err) {
    struct bed_raw raw = {.name = node->text};
    int rc;
    if (node->type == YAML_SEQUENCE)
        return options_error(node, file, err, "beds: expected a list of names, or of {name, alarms, least}");
    if (node->type == YAML_MAPPING && (rc = options_read(&bed_table, node, file, arena, &raw, err)))
        return rc;
    if (!*raw.name || strlen(raw.name) >= JOURNAL_CLIENT)
        return options_error(node, file, err, "beds: '%.60s': expected names of 1 to %d bytes", raw.name, JOURNAL_CLIENT - 1);
    if (!alarm_bed_is_named(raw.name))
        return options_error(node, file, err, "beds: '%s' is a program's own name and names no bed", raw.name);
    for (const char *p = raw.name; *p; p++)
        if (iscntrl((unsigned char)*p))
            return options_error(node, file, err, "beds: a name has a control character; no stream's has");
    for (int i = 0; i < c->n_beds; i++)
        if (!strcmp(c->beds[i], raw.name))
            return options_error(node, file, err, "beds: %.60s stands twice", raw.name);
    c->beds[c->n_beds++] = raw.name;
    if (raw.alarms || raw.least_ms > 0)
        c->escalation.rules[c->escalation.n_rules++] =
            (struct alarms_rule){.bed = raw.name, .off = raw.alarms, .least_ms = raw.least_ms};
    return 0;
}

int config_read_beds(const struct yaml_node *node, const char *file, struct arena *arena, struct config *ret, struct err *err) {
    int n = node && node->type == YAML_SCALAR, rc = 0;
    if (!node || yaml_is_null(node))
        return 0;
    for (const struct yaml_node *bed = node->child; bed; bed = bed->next)
        n++;
    if (node->type == YAML_MAPPING)
        return options_error(node, file, err, "beds: expected a list of names, or of {name, alarms, least}");
    if (n > CONFIG_MAX_BEDS)
        return options_error(node, file, err, "beds: more than %d", CONFIG_MAX_BEDS);
    ret->beds = arena_alloc(arena, (size_t)(n + 1) * sizeof *ret->beds);
    ret->escalation.rules = arena_alloc(arena, (size_t)(n + 1) * sizeof *ret->escalation.rules);
    if (!ret->beds || !ret->escalation.rules)
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", file);
    if (node->type == YAML_SCALAR)
        return (rc = options_check_list(node, file, "beds", err)) ? rc : read_bed(node, file, arena, ret, err);
    for (const struct yaml_node *bed = node->child; bed && !rc; bed = bed->next)
        rc = read_bed(bed, file, arena, ret, err);
    return rc;
}
