/* EEGLAB: a dataset in a MAT file (.set), its samples in it or in a file of 32-bit floats beside it (.fdt). Source: the description
 * of the EEG structure at eeglab.org. The structure is the variable EEG, or, as of 2021, its fields are the variables. Events
 * become annotations; latencies count samples from 1; "boundary" events are gaps of their duration. */

#include "formats/mat5.h"
#include "formats/matrix.h"

enum { EEGLAB_MOST_CHANNELS = 65536 };

struct eeglab {
    struct mat_value all;
    const struct mat_value *eeg; /* the structure */
    int64_t channels, points;
    double rate_hz;
    bool single; /* the rate is stored as a float */
};

static bool eeglab_probe(const uint8_t *start, size_t n) {
    return (n >= 8 && !memcmp(start, "\x89HDF\r\n\x1a\n", 8)) || (n >= 19 && !memcmp(start, "MATLAB 7.3 MAT-file", 19)) ||
           mat_probe(start, n);
}

static int read_dataset(struct eeglab *e, const struct filebytes *bytes, struct arena *arena, struct err *err) {
    uint8_t start[FORMAT_PROBE_BYTES];
    const uint8_t *data;
    size_t n = bytes->len < sizeof start ? bytes->len : sizeof start;
    int rc = filebytes_get(bytes, 0, n, start, &data, err);
    if (rc)
        return rc;
    if (!mat_probe(data, n) || !memcmp(data, "MATLAB 7.3", 10))
        return err_set(err, ERR_UNSUPPORTED,
                       "%s is saved as MATLAB 7.3 (HDF5), which is not read; save it with pop_saveset(EEG, 'filename', NAME, "
                       "'version', '6'), or export it as EDF",
                       bytes->name);
    static const char *const wanted[] = {"EEG",    "srate", "data", "nbchan",  "pnts",     "trials",  "chanlocs",
                                         "labels", "event", "type", "latency", "duration", "subject", NULL};
    if ((rc = mat_read(bytes, wanted, arena, &e->all, err)))
        return rc;
    const struct mat_value *variable = mat_field(&e->all, 0, "EEG");
    e->eeg = variable && variable->kind == MAT_STRUCT && variable->n == 1 ? variable : &e->all;
    if (!mat_field(e->eeg, 0, "srate") || !mat_field(e->eeg, 0, "data"))
        return err_set(err, ERR_INVALID, "%s is a MAT file but no dataset of EEGLAB: it has no EEG.srate and EEG.data",
                       bytes->name);
    return 0;
}

/* The name of the .fdt without folders; "" for samples in the dataset. */
static void samples_name(const struct eeglab *e, struct matrix *m, char ret[EEGFILE_NAME_SIZE]) {
    const char *name = mat_text(mat_field(e->eeg, 0, "data"));
    name = name ? matrix_keep(m, (struct matrix_text){name, strlen(name)}) : NULL;
    name = name ? name : "";
    for (const char *c = name; *c; c++)
        name = *c == '/' || *c == '\\' ? c + 1 : name;
    str_copy(ret, EEGFILE_NAME_SIZE, name);
}

static int check_dataset(struct eeglab *e, const char *path, struct err *err) {
    const struct mat_value *data = mat_field(e->eeg, 0, "data");
    const double trials = mat_number(mat_field(e->eeg, 0, "trials"), 1);
    double channels = mat_number(mat_field(e->eeg, 0, "nbchan"), data->kind == MAT_NUMBERS ? (double)data->rows : 0);
    double points = mat_number(mat_field(e->eeg, 0, "pnts"), data->kind == MAT_NUMBERS ? (double)data->columns : 0);
    e->rate_hz = mat_number(mat_field(e->eeg, 0, "srate"), 0);
    e->single = mat_field(e->eeg, 0, "srate")->place.type == MAT_F32;
    if (trials > 1)
        return err_set(err, ERR_UNSUPPORTED, "%s is cut into %.0f epochs; load and save the continuous dataset", path, trials);
    if (!(channels >= 1 && channels <= EEGLAB_MOST_CHANNELS) || !(points >= 1 && points < 1e12) || !(e->rate_hz > 0))
        return err_set(err, ERR_INVALID, "%s: nbchan %g, pnts %g, srate %g; expected numbers above 0", path, channels, points,
                       e->rate_hz);
    e->channels = (int64_t)channels;
    e->points = (int64_t)points;
    if (data->kind == MAT_NUMBERS && (data->rows != e->channels || data->columns != e->points))
        return err_set(err, ERR_INVALID, "%s: EEG.data is %lld × %lld; expected nbchan × pnts, %lld × %lld", path,
                       (long long)data->rows, (long long)data->columns, (long long)e->channels, (long long)e->points);
    return 0;
}

static int add_channels(const struct eeglab *e, struct matrix *m, struct err *err) {
    const struct mat_value *places = mat_field(e->eeg, 0, "chanlocs");
    int rc = 0;
    for (int64_t i = 0; i < e->channels && !rc; i++) {
        char number[32];
        const char *label = mat_text(mat_field(places, i, "labels"));
        str_format(number, sizeof number, "%lld", (long long)i + 1);
        label = label && *label ? label : number;
        rc = matrix_add_microvolts(m, (struct matrix_text){label, strlen(label)}, 1, err);
    }
    return rc;
}

/* ---- samples ---- */

/* Inflated samples lie in a file without a name, made when they are first read. */
struct inflated {
    struct mat_place place;
    pthread_mutex_t lock;
    bool done;
};

static int inflate_samples(struct matrix *m, struct err *err) {
    struct inflated *i = m->later;
    const char *folder = getenv("TMPDIR");
    int rc = 0, fd = -1;
    LOCKED(&i->lock);
    if (!i->done) {
        fd = open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        rc = fd < 0 ? err_set(err, ERR_INVALID,
                              "%s: no file can be made for its inflated samples; set TMPDIR to a folder with room", m->base.path)
                    : mat_inflate(&m->own, &i->place, fd, err);
        if (rc && fd >= 0)
            close(fd);
        else if (!rc) {
            m->data.fd = fd;
            i->done = true;
        }
    }
    return rc;
}

static void inflated_done(struct matrix *m) {
    struct inflated *i = m->later;
    if (i)
        pthread_mutex_destroy(&i->lock);
}

static bool sample_type(enum mat_type stored, enum matrix_type *ret) {
    switch (stored) {
    case MAT_I8:
        *ret = MATRIX_I8;
        return true;
    case MAT_U8:
        *ret = MATRIX_U8;
        return true;
    case MAT_I16:
        *ret = MATRIX_I16;
        return true;
    case MAT_U16:
        *ret = MATRIX_U16;
        return true;
    case MAT_I32:
        *ret = MATRIX_I32;
        return true;
    case MAT_F32:
        *ret = MATRIX_F32;
        return true;
    case MAT_F64:
        *ret = MATRIX_F64;
        return true;
    case MAT_U32:
    case MAT_I64:
    case MAT_U64:
    default:
        return false;
    }
}

/* Samples in the dataset itself: channels of a sample together, in the type in which they are stored. */
static int place_inside(struct matrix *m, const struct filebytes *bytes, const struct mat_value *data, struct err *err) {
    const struct mat_place *p = &data->place;
    if (!sample_type((enum mat_type)p->type, &m->type))
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: EEG.data is stored in a type that is not read; convert it with EEG.data = single(EEG.data)",
                       m->base.path);
    m->whole = (size_t)(p->element ? p->bytes : p->offset + p->bytes);
    m->data.len = p->element ? m->whole : bytes->len < m->whole ? bytes->len : m->whole;
    if (!p->element)
        return 0;
    struct inflated *i = arena_alloc(&m->arena, sizeof *i);
    if (!i)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", m->base.path);
    i->place = *p;
    pthread_mutex_init(&i->lock, NULL);
    m->later = i;
    m->prepare = inflate_samples;
    m->unprepare = inflated_done;
    return 0;
}

/* The file that the dataset names; or, as EEGLAB itself and others do, the one that has the dataset's name. */
static int open_beside(struct format_source *source, struct matrix *m, char name[EEGFILE_NAME_SIZE], struct err *err) {
    char other[EEGFILE_NAME_SIZE];
    const char *own = fsio_basename(m->base.path), *dot = strrchr(own, '.');
    m->type = MATRIX_F32;
    m->by_signal = str_ends_nocase(name, ".dat");
    int rc = matrix_open_samples(source, m, name, err);
    if (rc == ERR_NOT_FOUND && str_format(other, sizeof other, "%.*s.fdt", dot ? (int)(dot - own) : (int)strlen(own), own) &&
        strcmp(other, name) != 0 && !matrix_open_samples(source, m, other, NULL)) {
        matrix_repair(m, "its samples are called %.100s in the dataset; %.100s is read", name, other);
        rc = 0;
    }
    return rc;
}

static int place_samples(struct format_source *source, const struct eeglab *e, struct matrix *m, struct err *err) {
    const struct mat_value *data = mat_field(e->eeg, 0, "data");
    char name[EEGFILE_NAME_SIZE];
    samples_name(e, m, name);
    int rc = *name ? open_beside(source, m, name, err) : place_inside(m, &source->bytes, data, err);
    if (rc)
        return rc;
    m->columns = (int)e->channels;
    const size_t first = *name || data->place.element ? 0 : (size_t)data->place.offset;
    const uint64_t wanted = (uint64_t)matrix_stride(m) * (uint64_t)e->points;
    if (m->whole - first < wanted)
        return err_set(err, ERR_INVALID,
                       "%s: %s has %zu bytes; expected %llu of %lld samples of %lld channels; copy or save it again", m->base.path,
                       *name ? name : "EEG.data", m->whole - first, (unsigned long long)wanted, (long long)e->points,
                       (long long)e->channels);
    if (m->whole - first > wanted && *name)
        matrix_repair(m, "%llu bytes after the last sample are left out", (unsigned long long)(m->whole - first - wanted));
    rc = matrix_add_block(m, first, e->points, 0, err);
    return rc ? rc : add_channels(e, m, err);
}

/* ---- events ---- */

/* The type of an event is a text or a number. */
static const char *event_type(const struct mat_value *events, int64_t i, char buf[32]) {
    const struct mat_value *type = mat_field(events, i, "type");
    const char *text = mat_text(type);
    if (text)
        return text;
    const double number = mat_number(type, NAN);
    str_format(buf, 32, "%g", number);
    return isnan(number) ? "" : buf;
}

static bool is_boundary(const struct mat_value *events, int64_t i) {
    char buf[32];
    const char *type = event_type(events, i, buf);
    return !strcasecmp(type, "boundary") || !strcmp(type, "-99");
}

static int add_gaps(const struct mat_value *events, struct matrix *m, struct err *err) {
    int64_t unknown = 0;
    for (int64_t i = 0; i < events->n; i++) {
        const double latency = mat_number(mat_field(events, i, "latency"), NAN),
                     missing = mat_number(mat_field(events, i, "duration"), NAN);
        if (!is_boundary(events, i) || !(latency > 1) || !(latency <= (double)m->info.n_records))
            continue;
        unknown += !(missing > 0);
        int rc = missing > 0 && missing < 1e15
                     ? matrix_add_mark(m, (int64_t)ceil(latency) - 1, NAN, missing * m->info.record_s, err)
                     : 0;
        if (rc)
            return rc;
    }
    if (unknown)
        matrix_repair(m, "%lld boundaries do not say how much is missing: what follows is taken as following what was before",
                      (long long)unknown);
    return matrix_place_marks(m, 0, false, err);
}

static int add_events(const struct eeglab *e, struct matrix *m, struct err *err) {
    const struct mat_value *events = mat_field(e->eeg, 0, "event");
    if (!events || events->kind != MAT_STRUCT)
        return 0;
    int rc = add_gaps(events, m, err);
    for (int64_t i = 0; i < events->n && !rc; i++) {
        char buf[32];
        const double latency = mat_number(mat_field(events, i, "latency"), NAN),
                     points = mat_number(mat_field(events, i, "duration"), NAN);
        const char *type = event_type(events, i, buf);
        if (isfinite(latency) && !is_boundary(events, i))
            rc = matrix_annotate(m, matrix_file_time(m, latency - 1), points > 0 ? points * m->info.record_s : NAN,
                                 (struct matrix_text){type, strlen(type)}, err);
    }
    return rc;
}

/* ---- opening ---- */

static int fill_eeglab(struct format_source *source, struct matrix *m, struct err *err) {
    struct eeglab e = {0};
    const char *subject;
    int rc;
    source->enough &= source->whole == source->bytes.len;
    if ((rc = read_dataset(&e, &source->bytes, &m->arena, err)) || (rc = check_dataset(&e, m->base.path, err)) ||
        (rc = matrix_set_rate_number(m, e.rate_hz, e.single, err)) || (rc = place_samples(source, &e, m, err)) ||
        (rc = add_events(&e, m, err)))
        return rc;
    if ((subject = mat_text(mat_field(e.eeg, 0, "subject"))))
        m->info.patient = matrix_keep(m, (struct matrix_text){subject, strlen(subject)});
    if (!m->info.patient)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", m->base.path);
    if (m->data.fd < 0 && !m->data.memory && !m->prepare) { /* the samples are in the dataset, as they are */
        const size_t len = m->data.len;
        m->data = source->bytes;
        m->data.len = len;
        m->data.name = m->base.path;
        filebytes_init(&source->bytes, source->bytes.name);
    } else if (m->prepare) {
        m->own = source->bytes;
        m->own.name = m->base.path;
        filebytes_init(&source->bytes, source->bytes.name);
    }
    return 0;
}

static const char *const eeglab_endings[] = {".set", NULL};
static const char *const eeglab_parts[] = {".fdt", NULL};

const struct recording_format format_eeglab = {.name = "EEGLAB",
                                               .endings = eeglab_endings,
                                               .part_endings = eeglab_parts,
                                               .probe = eeglab_probe,
                                               .open = matrix_open,
                                               .fill = fill_eeglab,
                                               .read = matrix_read,
                                               .close = matrix_close};
