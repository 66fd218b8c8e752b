#include "eeg/channels.h"

#include "eeg/montage.h"

void channels_done(struct channels *c) {
    FREE_MEMBERS(*c, labels, signals, renamed);
    *c = (struct channels){0};
}

int channels_check_units(const struct eeg_info *info, const int *signals, int n, char *ret_faults, size_t size, struct err *err) {
    const char *first = NULL;
    int assumed = 0;
    for (int i = 0; i < n; i++) {
        const struct eeg_signal *s = &info->signals[signals[i]];
        if (!s->volt)
            return err_set(err, ERR_PRECONDITION,
                           "channel %s has the unit '%s'; expected a voltage (uV, mV, V or nV), or a blank for uV", s->label,
                           s->unit);
        if (s->unit_assumed && !assumed++)
            first = s->label;
    }
    str_copy(ret_faults, size, "");
    if (assumed == 1)
        str_format(ret_faults, size, "channel %s has no unit: its values are read as uV", first);
    else if (assumed)
        str_format(ret_faults, size, "%d channels, %s the first of them, have no unit: their values are read as uV", assumed,
                   first);
    return 0;
}

/* One rate and units for the signals that the montage takes. */
static int check_sources(const struct eeg_info *info, const struct montage *m, struct channels *c, struct err *err) {
    int *used = calloc((size_t)m->n_sources + 1, sizeof *used);
    if (!used)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d channels", m->n_sources);
    for (int k = 0; k < m->n_sources; k++)
        used[k] = c->signals[m->sources[k]];
    const struct eeg_signal *first = &info->signals[used[0]];
    int rc = channels_check_units(info, used, m->n_sources, c->faults, sizeof c->faults, err);
    for (int k = 1; k < m->n_sources && !rc; k++) {
        const struct eeg_signal *s = &info->signals[used[k]];
        if (s->samples_per_record != first->samples_per_record)
            rc = err_set(err, ERR_PRECONDITION,
                         "channel %s has %g Hz but %s has %g Hz; expected one rate for the montage's channels", s->label,
                         s->rate_hz, first->label, first->rate_hz);
    }
    COPY_MEMBERS(*c, *first, rate_hz, samples_per_record);
    free(used);
    return rc;
}

void channels_ignored(const struct eeg_info *info, size_t room, char *buf, size_t size) {
    enum { LIST_MAX = 128 << 10 };
    static const char prefix[] = "unusable: ";
    struct str list, text;
    str_init(&list, LIST_MAX);
    str_init(&text, size - 1);
    for (int i = 0; i < info->n_signals; i++) {
        const struct eeg_signal *s = &info->signals[i];
        if (s->annotation || channels_usable(s))
            continue;
        const char *why = str_starts(s->note, prefix) ? s->note + strlen(prefix) : *s->note ? s->note : "its rate is 0 Hz";
        str_printf(&list, "%s%s (%s)", list.len ? "; " : "", *s->label ? s->label : "a signal without a label", why);
    }
    str_put_list(&text, str_cstr(&list), "; ", room);
    str_copy(buf, size, str_cstr(&text));
    str_done(&text);
    str_done(&list);
}

int channels_none(const struct eeg_info *info, const char *name, struct err *err) {
    char why[256];
    channels_ignored(info, sizeof why - 56, why, sizeof why);
    return err_set(err, ERR_PRECONDITION, "%.200s%sno usable signal: %s", name, *name ? ": " : "",
                   *why              ? why
                   : info->n_signals ? "the file holds only annotations"
                                     : "the file has no signals");
}

/* What the one '*' of a pattern stands for in a label; false when the pattern is not that of the label. */
static bool label_matches(const char *pattern, size_t n, const char *label, const char **ret_part, size_t *ret_len) {
    const char *star = memchr(pattern, '*', n);
    size_t front = star ? (size_t)(star - pattern) : n, back = star ? n - front - 1 : 0, len = strlen(label);
    *ret_part = label + front;
    *ret_len = len < front + back ? 0 : len - front - back;
    return len >= front + back && (star || len == n) && !strncasecmp(label, pattern, front) &&
           !strncasecmp(label + len - back, pattern + n - back, back);
}

void channels_rename(const char *rules, const char *label, char ret[CHANNELS_LABEL_SIZE]) {
    str_copy(ret, CHANNELS_LABEL_SIZE, label);
    for (const char *rule = rules; rule && *rule; rule += strcspn(rule, "\n"), rule += *rule == '\n') {
        size_t n = strcspn(rule, "\t"), len;
        const char *name = rule + n + 1, *part;
        if (!label_matches(rule, n, label, &part, &len))
            continue;
        size_t all = strcspn(name, "\n"), front = strcspn(name, "*\n");
        int back = front < all ? (int)(all - front - 1) : 0;
        str_format(ret, CHANNELS_LABEL_SIZE, "%.*s%.*s%.*s", (int)front, name, front < all ? (int)len : 0, part, back,
                   name + all - back);
        return;
    }
}

int channels_add_rename(struct str *rules, const char *pattern, const char *name, struct err *err) {
    const char *const texts[] = {pattern, name};
    for (int i = 0; i < 2; i++) {
        const char *star = strchr(texts[i], '*');
        if (!*texts[i] || strlen(texts[i]) > 80 || strpbrk(texts[i], "\t\n") || (star && strchr(star + 1, '*')))
            return err_set(err, ERR_INVALID, "'%.80s' is no label to rename; expected 1 to 80 characters with at most one '*'",
                           texts[i]);
    }
    str_printf(rules, "%s%s\t%s", rules->len ? "\n" : "", pattern, name);
    return str_ok(rules) ? 0 : err_set(err, ERR_EXHAUSTED, "too many labels to rename");
}

static bool rename_labels(struct channels *c, const char *rules) {
    if (!(c->renamed = malloc((size_t)c->n * CHANNELS_LABEL_SIZE)))
        return false;
    for (int i = 0; i < c->n; i++) {
        char *to = c->renamed + (size_t)i * CHANNELS_LABEL_SIZE;
        channels_rename(rules, c->labels[i], to);
        c->labels[i] = to;
    }
    return true;
}

int channels_choose(const struct eeg_info *info, const struct frontend_config *config, struct channels *c, struct err *err) {
    struct montage *m = NULL;
    char ignored[2 * MONTAGE_IGNORED_ROOM + 1];
    *c = (struct channels){.labels = calloc((size_t)info->n_signals + 1, sizeof *c->labels),
                           .signals = calloc((size_t)info->n_signals + 1, sizeof *c->signals)};
    if (!c->labels || !c->signals)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d labels", info->n_signals);
    for (int i = 0; i < info->n_signals && c->n < FRONTEND_MAX_LABELS; i++)
        if (channels_usable(&info->signals[i])) {
            c->labels[c->n] = info->signals[i].label;
            c->signals[c->n++] = i;
        }
    if (c->n == 0)
        return channels_none(info, "", err);
    if (config->rename && !rename_labels(c, config->rename))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d labels", c->n);
    channels_ignored(info, MONTAGE_IGNORED_ROOM, ignored, sizeof ignored);
    int rc = frontend_check(config, err);
    if (rc || (rc = montage_new_of(config->montage, c->labels, c->n, ignored, &m, err)))
        return rc;
    COPY_MEMBERS(*c, *m, n_outputs, inverse, interpolated);
    str_copy(c->note, sizeof c->note, m->note);
    rc = check_sources(info, m, c, err);
    montage_free(m);
    return rc;
}
