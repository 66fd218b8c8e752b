#include "eeg/montage.h"

#include "eeg/frontend.h"

enum { ELECTRODES = 19, MAX_EDGES = 256, MAX_NODES = 128 };
/* Bytes of the lists in an error: it stays whole as the cause of another error. */
enum { LISTED_MAX = 16 << 10, MISSING_ROOM = 70, PRESENT_ROOM = 120 };

static const char *const referential_19[ELECTRODES] = {"Fp1", "F3",  "C3", "P3", "F7", "T3", "T5", "O1", "Fz", "Cz",
                                                       "Pz",  "Fp2", "F4", "C4", "P4", "F8", "T4", "T6", "O2"};
static const char *const bipolar_18[] = {"Fp1-F7", "F7-T3", "T3-T5", "T5-O1",  "Fp1-F3", "F3-C3", "C3-P3", "P3-O1", "Fp2-F4",
                                         "F4-C4",  "C4-P4", "P4-O2", "Fp2-F8", "F8-T4",  "T4-T6", "T6-O2", "Fz-Cz", "Cz-Pz"};
/* Other names of the 10-10 system, so that pairs of them are known as derivations. */
static const char *const other_electrodes[] = {
    "Fpz",  "AF7", "AF3", "AFz", "AF4",  "AF8", "F1",  "F2",  "F5",  "F6",  "F9",  "F10", "FT7", "FT8", "FT9",
    "FT10", "FC1", "FC2", "FC3", "FC4",  "FC5", "FC6", "FCz", "C1",  "C2",  "C5",  "C6",  "T1",  "T2",  "T9",
    "T10",  "TP7", "TP8", "TP9", "TP10", "CP1", "CP2", "CP3", "CP4", "CP5", "CP6", "CPz", "P1",  "P2",  "P5",
    "P6",   "P9",  "P10", "PO3", "PO4",  "PO7", "PO8", "POz", "Oz",  "A1",  "A2",  "M1",  "M2",  "Iz",
};
static const char *const aliases[][2] = {{"T7", "T3"}, {"T8", "T4"}, {"P7", "T5"}, {"P8", "T6"}, {"01", "O1"}, {"02", "O2"}};
/* What a recorder writes behind an electrode for its reference, without + and - inside. */
static const char *const references[] = {"REF",  "REFERENCE", "LE",   "LER", "AR",   "AV",     "AVE",
                                         "AVG",  "AVERAGE",   "CAR",  "CS2", "A1A2", "A2A1",   "A12",
                                         "A1/2", "M1M2",      "M2M1", "M12", "LM",   "LINKED", "LINKEDEARS"};
static const char SEPARATORS[] = "-_:/";

static int electrode_index(const char *name) { return str_index(name, referential_19, ELECTRODES); }

/* The canonical spelling of an electrode, or NULL when the text is none. */
static const char *electrode_name(const char *text) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcasecmp(text, aliases[i][0]))
            return aliases[i][1];
    for (int i = 0; i < ELECTRODES; i++)
        if (!strcasecmp(text, referential_19[i]))
            return referential_19[i];
    for (size_t i = 0; i < sizeof other_electrodes / sizeof *other_electrodes; i++)
        if (!strcasecmp(text, other_electrodes[i]))
            return other_electrodes[i];
    return NULL;
}

static void strip_dots(char *text) {
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == '.')
        text[--len] = 0;
}

/* True if a text, its + and - left out, is the name of a reference. */
static bool is_reference(const char *text) {
    char name[MONTAGE_LABEL_SIZE];
    size_t n = 0;
    for (; *text && n + 1 < sizeof name; text++)
        if (*text != '+' && *text != '-')
            name[n++] = *text;
    name[n] = '\0';
    for (size_t i = 0; i < sizeof references / sizeof *references; i++)
        if (!strcasecmp(name, references[i]))
            return true;
    return false;
}

/* The electrode of "T3(T7)" and "T3/T7": two names of one; NULL for anything else. */
static const char *doubly_named(const char *text) {
    char first[MONTAGE_LABEL_SIZE], second[MONTAGE_LABEL_SIZE];
    size_t n = strcspn(text, "(/"), m = text[n] ? strcspn(text + n + 1, ")") : 0;
    if (!text[n] || (text[n] == '(' && strcmp(text + n + 1 + m, ")") != 0) ||
        !str_format(first, sizeof first, "%.*s", (int)n, text) || !str_format(second, sizeof second, "%.*s", (int)m, text + n + 1))
        return NULL;
    const char *a = electrode_name(first), *b = electrode_name(second);
    return a && a == b ? a : NULL;
}

/* Cuts the name of a reference off the end: behind a separator, in brackets, or directly behind an electrode. */
static void strip_reference(char *text) {
    size_t len = strlen(text);
    if (len > 2 && text[len - 1] == ')') {
        char *open = strrchr(text, '(');
        text[len - 1] = '\0';
        if (open && open > text && is_reference(open + 1))
            *open = '\0';
        else
            text[len - 1] = ')';
        return;
    }
    for (char *c = text + 1; *text && *c; c++) /* from the front, so that "-A1-A2" is cut whole */
        if (strchr(SEPARATORS, *c) && is_reference(c + 1)) {
            *c = '\0';
            return;
        }
    for (size_t n = len; n-- > 2;) {
        char first[MONTAGE_LABEL_SIZE];
        if (is_reference(text + n) && str_format(first, sizeof first, "%.*s", (int)n, text) && electrode_name(first)) {
            text[n] = '\0';
            return;
        }
    }
}

static void strip_suffixes(char *text) {
    size_t len = strlen(text);
    if (len > 2 && text[len - 2] == '-' && isdigit((unsigned char)text[len - 1]))
        text[len - 2] = 0;
    if (!electrode_name(text))
        strip_reference(text);
}

void montage_clean(const char *label, char ret[MONTAGE_LABEL_SIZE]) {
    char text[MONTAGE_LABEL_SIZE], first[MONTAGE_LABEL_SIZE];
    size_t len = 0;
    for (; *label && len + 1 < sizeof text; label++)
        if (!isspace((unsigned char)*label))
            text[len++] = *label;
    text[len] = 0;
    strip_dots(text);
    if ((!strncasecmp(text, "EEG", 3) || !strncasecmp(text, "POL", 3)) && text[3]) {
        size_t n = 3 + strspn(text + 3, SEPARATORS);
        n = text[n] ? n : 3;
        memmove(text, text + n, strlen(text + n) + 1);
    }
    strip_suffixes(text);
    strip_dots(text);
    const char *whole = electrode_name(text), *dash = strpbrk(text, "-_:");
    whole = whole ? whole : doubly_named(text);
    if (whole) {
        str_copy(ret, MONTAGE_LABEL_SIZE, whole);
        return;
    }
    if (dash && dash != text) {
        memcpy(first, text, (size_t)(dash - text));
        first[dash - text] = 0;
        strip_dots(first);
        const char *a = electrode_name(first), *b = electrode_name(dash + 1);
        if (a && b && a != b) {
            str_format(ret, MONTAGE_LABEL_SIZE, "%s-%s", a, b);
            return;
        }
    }
    for (char *c = text; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    str_copy(ret, MONTAGE_LABEL_SIZE, text);
}

/* Splits the cleaned name of a derivation; false for anything else. */
static bool split_pair(const char *name, char a[MONTAGE_LABEL_SIZE], char b[MONTAGE_LABEL_SIZE]) {
    const char *dash = strchr(name, '-');
    if (!dash || dash == name)
        return false;
    memcpy(a, name, (size_t)(dash - name));
    a[dash - name] = 0;
    str_copy(b, MONTAGE_LABEL_SIZE, dash + 1);
    return electrode_name(a) && electrode_name(b);
}

static int parse_custom(const char *list, char (*names)[MONTAGE_LABEL_SIZE], int *ret_n, struct err *err) {
    int n = 0;
    for (const char *p = list;; p++) {
        size_t len = strcspn(p, ",");
        char text[128];
        if (len == 0 || len >= sizeof text)
            return err_set(err, ERR_INVALID,
                           "montage custom:%s: label %d is empty or too long; expected labels separated by commas", list, n + 1);
        if (n == MONTAGE_MAX_OUTPUTS)
            return err_set(err, ERR_INVALID, "montage custom: more than %d labels", MONTAGE_MAX_OUTPUTS);
        memcpy(text, p, len);
        text[len] = 0;
        montage_clean(text, names[n]);
        for (int i = 0; i < n; i++)
            if (!strcmp(names[i], names[n]))
                return err_set(err, ERR_INVALID, "montage custom:%s: %s stands there twice", list, names[n]);
        n++;
        p += len;
        if (!*p)
            break;
    }
    *ret_n = n;
    return 0;
}

static int parse_spec(const char *spec, char (*names)[MONTAGE_LABEL_SIZE], int *ret_n, struct err *err) {
    const char *const *list = NULL;
    int n = 0;
    if (spec && !strcmp(spec, "referential-19")) {
        list = referential_19;
        n = ELECTRODES;
    } else if (spec && !strcmp(spec, "bipolar-18")) {
        list = bipolar_18;
        n = (int)(sizeof bipolar_18 / sizeof *bipolar_18);
    } else if (spec && str_starts(spec, "custom:")) {
        return parse_custom(spec + strlen("custom:"), names, ret_n, err);
    } else {
        return err_set(err, ERR_INVALID, "montage '%s' is not known; expected referential-19, bipolar-18 or custom:LABEL,LABEL,…",
                       spec ? spec : "");
    }
    for (int i = 0; i < n; i++)
        str_copy(names[i], MONTAGE_LABEL_SIZE, list[i]);
    *ret_n = n;
    return 0;
}

int montage_channels(const char *montage, const char *const **ret_names, int *ret_n, struct err *err) {
    struct {
        const char *pointers[MONTAGE_MAX_OUTPUTS];
        char names[MONTAGE_MAX_OUTPUTS][MONTAGE_LABEL_SIZE];
    } *block = calloc(1, sizeof *block);
    if (!block)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the channels of montage %s", montage);
    int n = 0, rc = parse_spec(montage, block->names, &n, err);
    if (rc) {
        free(block);
        return rc;
    }
    *ret_n = n;
    if (!ret_names) {
        free(block);
        return 0;
    }
    for (int i = 0; i < n; i++)
        block->pointers[i] = block->names[i];
    *ret_names = block->pointers;
    return 0;
}

void montage_channels_free(const char *const *names) { free((void *)(uintptr_t)names); }

int montage_electrodes(const char *const *labels, int n_labels) {
    bool named[ELECTRODES] = {false};
    int n = 0;
    for (int i = 0; i < n_labels; i++) {
        char clean[MONTAGE_LABEL_SIZE];
        montage_clean(labels[i], clean);
        char *dash = strchr(clean, '-');
        if (dash)
            *dash++ = '\0';
        const char *const parts[] = {clean, dash};
        for (int k = 0; k < 2; k++) {
            int e = parts[k] ? electrode_index(parts[k]) : -1;
            n += e >= 0 && !named[e];
            if (e >= 0)
                named[e] = true;
        }
    }
    return n;
}

/* A montage under construction: a row of weights over all labels for each of the 19 electrodes that can be had. */
struct resolver {
    const char *spec, *ignored;
    const char *const *labels;
    int n_labels;
    char (*clean)[MONTAGE_LABEL_SIZE];
    double *rows; /* (ELECTRODES, n_labels) */
    bool have[ELECTRODES];
    double *out; /* (MONTAGE_MAX_OUTPUTS, n_labels) */
};

static int find_label(const struct resolver *r, const char *name) {
    for (int i = 0; i < r->n_labels; i++)
        if (!strcmp(r->clean[i], name))
            return i;
    return -1;
}

static int find_pair(const struct resolver *r, const char *a, const char *b, double *ret_sign) {
    char name[2 * MONTAGE_LABEL_SIZE];
    str_format(name, sizeof name, "%s-%s", a, b);
    *ret_sign = 1;
    int i = find_label(r, name);
    if (i < 0) {
        str_format(name, sizeof name, "%s-%s", b, a);
        *ret_sign = -1;
        i = find_label(r, name);
    }
    return i;
}

static void find_electrodes(struct resolver *r) {
    for (int e = 0; e < ELECTRODES; e++) {
        int i = find_label(r, referential_19[e]);
        r->have[e] = i >= 0;
        if (i >= 0)
            r->rows[(size_t)e * (size_t)r->n_labels + (size_t)i] = 1;
    }
}

/* Fz and Pz from all others, when all others are there. Returns how many were made. */
static int interpolate_midline(struct resolver *r, struct montage *m, struct err *err) {
    const char *known[ELECTRODES];
    int known_index[ELECTRODES], n_known = 0, made = 0;
    for (int e = 0; e < ELECTRODES; e++) {
        if (r->have[e]) {
            known[n_known] = referential_19[e];
            known_index[n_known++] = e;
        } else if (strcmp(referential_19[e], "Fz") && strcmp(referential_19[e], "Pz")) {
            return 0;
        }
    }
    for (int e = 0; e < ELECTRODES; e++) {
        double weights[ELECTRODES];
        bool is_known = false;
        for (int k = 0; k < n_known; k++)
            is_known |= known_index[k] == e;
        if (is_known)
            continue;
        int rc = montage_spline(referential_19[e], known, n_known, weights, err);
        if (rc)
            return rc;
        for (int k = 0; k < n_known; k++)
            for (int i = 0; i < r->n_labels; i++)
                r->rows[e * r->n_labels + i] += weights[k] * r->rows[known_index[k] * r->n_labels + i];
        r->have[e] = true;
        made++;
        size_t used = strlen(m->note);
        str_format(m->note + used, sizeof m->note - used, "%s%s interpolated", used ? ", " : "", referential_19[e]);
    }
    m->interpolated = made;
    return made;
}

struct graph {
    char nodes[MAX_NODES][MONTAGE_LABEL_SIZE];
    int plus[MAX_EDGES], minus[MAX_EDGES], label[MAX_EDGES];
    int n_nodes, n_edges;
};

static int graph_node(struct graph *g, const char *name) {
    for (int i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i], name))
            return i;
    if (g->n_nodes == MAX_NODES)
        return -1;
    str_copy(g->nodes[g->n_nodes], MONTAGE_LABEL_SIZE, name);
    return g->n_nodes++;
}

/* Every derivation between two electrodes once, whatever its direction. */
static void collect_graph(const struct resolver *r, struct graph *g) {
    for (int i = 0; i < r->n_labels && g->n_edges < MAX_EDGES; i++) {
        char a[MONTAGE_LABEL_SIZE], b[MONTAGE_LABEL_SIZE];
        if (!split_pair(r->clean[i], a, b))
            continue;
        int plus = graph_node(g, a), minus = graph_node(g, b);
        bool seen = plus < 0 || minus < 0;
        for (int e = 0; e < g->n_edges && !seen; e++)
            seen = (g->plus[e] == plus && g->minus[e] == minus) || (g->plus[e] == minus && g->minus[e] == plus);
        if (seen)
            continue;
        g->plus[g->n_edges] = plus;
        g->minus[g->n_edges] = minus;
        g->label[g->n_edges++] = i;
    }
}

/* Electrodes as the minimum-norm solution of the derivations; false in *ret_done when the file has too few of them. */
static int invert_bipolar(struct resolver *r, struct montage *m, bool *ret_done, struct err *err) {
    struct graph *g = calloc(1, sizeof *g);
    double *inverse = calloc((size_t)MAX_NODES * MAX_EDGES, sizeof *inverse);
    int rc = 0;
    *ret_done = false;
    if (!g || !inverse) {
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for the inverse of montage %s", r->spec);
        goto done;
    }
    collect_graph(r, g);
    if (!g->n_edges)
        goto done;
    if ((rc = montage_invert(g->plus, g->minus, g->n_edges, g->n_nodes, inverse, err)))
        goto done;
    memset(r->rows, 0, sizeof *r->rows * ELECTRODES * (size_t)r->n_labels);
    for (int e = 0; e < ELECTRODES; e++) {
        r->have[e] = false;
        for (int node = 0; node < g->n_nodes; node++) {
            if (strcmp(g->nodes[node], referential_19[e]))
                continue;
            r->have[e] = true;
            for (int k = 0; k < g->n_edges; k++)
                r->rows[e * r->n_labels + g->label[k]] = inverse[node * g->n_edges + k];
        }
    }
    str_copy(m->note, sizeof m->note, "bipolar recording: electrodes from the minimum-norm inverse, average reference");
    int made = interpolate_midline(r, m, err);
    if (made < 0) {
        rc = made;
        goto done;
    }
    for (int e = 0; e < ELECTRODES; e++)
        if (!r->have[e])
            goto done;
    for (int i = 0; i < r->n_labels; i++) {
        double mean = 0;
        for (int e = 0; e < ELECTRODES; e++)
            mean += r->rows[e * r->n_labels + i] / ELECTRODES;
        for (int e = 0; e < ELECTRODES; e++)
            r->rows[e * r->n_labels + i] -= mean;
    }
    m->inverse = *ret_done = true;
done:
    free(g);
    free(inverse);
    return rc;
}

/* Adds sign × the electrode to a row over the labels. false when it cannot be had. */
static bool add_electrode(const struct resolver *r, const char *name, double sign, double *row) {
    int e = electrode_index(name);
    if (e >= 0 && r->have[e]) {
        for (int i = 0; i < r->n_labels; i++)
            row[i] += sign * r->rows[e * r->n_labels + i];
        return true;
    }
    int label = find_label(r, name);
    if (label >= 0)
        row[label] += sign;
    return label >= 0;
}

/* Fills the row of output o; false when something it needs is missing. */
static bool make_output(const struct resolver *r, const char *name, double *row) {
    char a[MONTAGE_LABEL_SIZE], b[MONTAGE_LABEL_SIZE];
    double sign;
    memset(row, 0, sizeof *row * (size_t)r->n_labels);
    if (electrode_index(name) >= 0)
        return add_electrode(r, name, 1, row);
    int label = find_label(r, name);
    if (label >= 0) {
        row[label] = 1;
        return true;
    }
    if (!split_pair(name, a, b))
        return false;
    if ((label = find_pair(r, a, b, &sign)) >= 0) {
        row[label] = sign;
        return true;
    }
    return add_electrode(r, a, 1, row) && add_electrode(r, b, -1, row);
}

static bool make_outputs(const struct resolver *r, const struct montage *m) {
    bool all = true;
    for (int o = 0; o < m->n_outputs; o++)
        all &= make_output(r, m->names[o], r->out + (size_t)o * (size_t)r->n_labels);
    return all;
}

static int report_missing(const struct resolver *r, const struct montage *m, struct err *err) {
    struct str missing, present, text;
    str_init(&missing, LISTED_MAX);
    str_init(&present, LISTED_MAX);
    str_init(&text, sizeof err->message - 1);
    double *row = r->out;
    for (int o = 0; o < m->n_outputs; o++)
        if (!make_output(r, m->names[o], row))
            str_printf(&missing, "%s%s", missing.len ? " " : "", m->names[o]);
    for (int i = 0; i < r->n_labels; i++)
        str_printf(&present, "%s%s", i ? ", " : "", r->labels[i]);
    str_printf(&text, "montage %.40s cannot be made: missing ", r->spec);
    str_put_list(&text, str_cstr(&missing), " ", MISSING_ROOM);
    if (*r->ignored)
        str_printf(&text, "; ignored %.*s", 2 * MONTAGE_IGNORED_ROOM, r->ignored);
    str_puts(&text, "; labels present: ");
    str_put_list(&text, str_cstr(&present), ", ", *r->ignored ? PRESENT_ROOM - MONTAGE_IGNORED_ROOM : PRESENT_ROOM);
    int rc = err_set(err, ERR_PRECONDITION, "%s", str_cstr(&text));
    str_done(&text);
    str_done(&missing);
    str_done(&present);
    return rc;
}

/* Keep the labels that carry weight. */
static int compact(const struct resolver *r, struct montage *m, struct err *err) {
    m->sources = calloc((size_t)r->n_labels + 1, sizeof *m->sources);
    m->labels = calloc((size_t)r->n_labels + 1, sizeof *m->labels);
    m->matrix = calloc((size_t)m->n_outputs * (size_t)r->n_labels + 1, sizeof *m->matrix);
    if (!m->sources || !m->labels || !m->matrix)
        return err_set(err, ERR_EXHAUSTED, "out of memory for montage %s", r->spec);
    for (int i = 0; i < r->n_labels; i++) {
        bool used = false;
        for (int o = 0; o < m->n_outputs; o++)
            used |= fabs(r->out[o * r->n_labels + i]) > 1e-12;
        if (!used)
            continue;
        str_copy(m->labels[m->n_sources], sizeof *m->labels, r->labels[i]);
        m->sources[m->n_sources++] = i;
    }
    for (int o = 0; o < m->n_outputs; o++)
        for (int s = 0; s < m->n_sources; s++) {
            double w = r->out[o * r->n_labels + m->sources[s]];
            m->matrix[o * m->n_sources + s] = fabs(w) > 1e-12 ? w : 0;
        }
    return 0;
}

static void find_loops(const struct resolver *r, struct montage *m) {
    static const char *const chains[2][2][5] = {{{"Fp1", "F7", "T3", "T5", "O1"}, {"Fp1", "F3", "C3", "P3", "O1"}},
                                                {{"Fp2", "F8", "T4", "T6", "O2"}, {"Fp2", "F4", "C4", "P4", "O2"}}};
    for (int c = 0; c < 2; c++) {
        struct montage_loop loop = {.name = c ? "right chains" : "left chains"};
        bool whole = true;
        for (int k = 0; k < MONTAGE_LOOP_EDGES && whole; k++) {
            const char *const *chain = chains[c][k / 4];
            double sign;
            int label = find_pair(r, chain[k % 4], chain[k % 4 + 1], &sign), source = -1;
            for (int s = 0; s < m->n_sources; s++)
                if (m->sources[s] == label)
                    source = s;
            whole = source >= 0;
            loop.source[k] = source;
            loop.sign[k] = k < 4 ? sign : -sign;
        }
        if (whole)
            m->loops[m->n_loops++] = loop;
    }
}

static int count_true(const bool have[ELECTRODES]) {
    int n = 0;
    for (int e = 0; e < ELECTRODES; e++)
        n += have[e];
    return n;
}

static int resolve(struct resolver *r, struct montage *m, struct err *err) {
    bool electrodes_only = true, done = false;
    for (int o = 0; o < m->n_outputs; o++)
        electrodes_only &= electrode_index(m->names[o]) >= 0;
    find_electrodes(r);
    int rc = 0;
    if (!make_outputs(r, m)) {
        int made = interpolate_midline(r, m, err);
        if (made < 0)
            return made;
        done = made > 0 && make_outputs(r, m);
        if (!done && electrodes_only) {
            bool direct[ELECTRODES];
            memcpy(direct, r->have, sizeof direct);
            if ((rc = invert_bipolar(r, m, &done, err)))
                return rc;
            if (!done && count_true(direct) > count_true(r->have)) /* the message names what the file itself lacks */
                memcpy(r->have, direct, sizeof direct);
            done = done && make_outputs(r, m);
        }
        if (!done)
            return report_missing(r, m, err);
    }
    if ((rc = compact(r, m, err)))
        return rc;
    find_loops(r, m);
    return 0;
}

int montage_new(const char *spec, const char *const *labels, int n_labels, struct montage **ret, struct err *err) {
    return montage_new_of(spec, labels, n_labels, "", ret, err);
}

int montage_new_of(const char *spec, const char *const *labels, int n_labels, const char *ignored, struct montage **ret,
                   struct err *err) {
    if (n_labels < 1 || n_labels > MONTAGE_MAX_LABELS)
        return err_set(err, ERR_INVALID, "a montage needs 1..%d source labels, got %d", MONTAGE_MAX_LABELS, n_labels);
    struct montage *m = calloc(1, sizeof *m);
    struct resolver r = {.spec = spec, .ignored = ignored, .labels = labels, .n_labels = n_labels};
    r.clean = calloc((size_t)n_labels, sizeof *r.clean);
    r.rows = calloc((size_t)(ELECTRODES + MONTAGE_MAX_OUTPUTS) * (size_t)n_labels, sizeof *r.rows);
    int rc = 0;
    if (m)
        m->names = calloc(MONTAGE_MAX_OUTPUTS, sizeof *m->names);
    if (!m || !m->names || !r.clean || !r.rows) {
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for a montage of %d labels", n_labels);
    } else if (!(rc = parse_spec(spec, m->names, &m->n_outputs, err))) {
        r.out = r.rows + (size_t)ELECTRODES * (size_t)n_labels;
        for (int i = 0; i < n_labels; i++)
            montage_clean(labels[i], r.clean[i]);
        rc = resolve(&r, m, err);
    }
    FREE_MEMBERS(r, clean, rows);
    if (rc)
        montage_free(m);
    else
        *ret = m;
    return rc;
}

uint64_t montage_rows_of(const struct montage *m, int source) {
    uint64_t rows = 0;
    for (int row = 0; row < m->n_outputs; row++)
        rows |= (uint64_t)(m->matrix[row * m->n_sources + source] != 0) << row;
    return rows;
}

void montage_free(struct montage *m) {
    if (!m)
        return;
    FREE_MEMBERS(*m, names, sources, labels, matrix);
    free(m);
}
