/* The writing side of modelfile: apart, since it needs the network, and programs that only read model files do not. */

#include "detect/modelfile.h"
#include "nn/ckpt.h"

/* A number, or the list of both. */
static void put_notch(struct json_writer *w, double notch_hz) {
    if (notch_hz != FRONTEND_BOTH_NOTCHES) {
        json_put_f64(w, "notch_hz", notch_hz);
        return;
    }
    json_begin_array(w, "notch_hz");
    json_put_f64(w, NULL, 50);
    json_put_f64(w, NULL, 60);
    json_end(w, ']');
}

static void put_frontend(struct json_writer *w, const struct frontend_config *f) {
    json_begin_object(w, NULL);
    json_put_str(w, "montage", f->montage);
    put_notch(w, f->notch_hz);
    json_begin_array(w, "bandpass_hz");
    json_put_f64(w, NULL, f->bandpass_hz[0]);
    json_put_f64(w, NULL, f->bandpass_hz[1]);
    json_end(w, ']');
    json_put_f64(w, "fill_gap_s", f->fill_gap_s);
    json_put_i64(w, "rate_hz", FRONTEND_RATE_HZ);
    json_put_str(w, "normalize", frontend_normalize_name(f->normalize));
    if (f->reference != FRONTEND_REFERENCE_RECORDED) /* older versions write none */
        json_put_str(w, "reference", frontend_reference_name(f->reference));
    if (f->learn_background)
        json_put_bool(w, "learn_background", true);
    if (f->hold_background)
        json_put_bool(w, "hold_background", true);
    json_end(w, '}');
}

/* The metadata of a file, and the texts that they point to. */
struct metadata {
    struct str model, frontend, events, labels, alarms;
    char hop[32], step[32], epoch[32], prior[32], bf16_bound[32], temperature[32], most_missing[32];
    struct safetensors_pair pairs[20];
    size_t n;
};

static void add_pair(struct metadata *m, const char *key, const char *value) {
    m->pairs[m->n++] = (struct safetensors_pair){key, value};
}

static void write_texts(const struct modelfile *m, struct metadata *ret) {
    struct json_writer w;
    str_init(&ret->model, 65536);
    str_init(&ret->frontend, 65536);
    str_init(&ret->events, 65536);
    str_init(&ret->labels, 65536);
    str_init(&ret->alarms, 65536);
    json_writer_init(&w, &ret->model);
    seizure_config_to_json(&m->model, &w, NULL);
    json_writer_init(&w, &ret->frontend);
    put_frontend(&w, &m->frontend);
    json_writer_init(&w, &ret->events);
    events_config_to_json(&m->events, &w, NULL);
    json_writer_init(&w, &ret->labels);
    json_begin_object(&w, NULL);
    json_put_str(&w, "format", m->labels);
    json_end(&w, '}');
    json_writer_init(&w, &ret->alarms);
    alarm_sets_to_json(&m->alarms, &w, NULL);
    str_format(ret->hop, sizeof ret->hop, "%lld", (long long)m->hop);
    str_format(ret->step, sizeof ret->step, "%lld", (long long)m->step);
    str_format(ret->epoch, sizeof ret->epoch, "%lld", (long long)m->epoch);
    str_format(ret->prior, sizeof ret->prior, "%.17g", m->prior);
    str_format(ret->bf16_bound, sizeof ret->bf16_bound, "%.17g", m->bf16_bound);
    str_format(ret->temperature, sizeof ret->temperature, "%.17g", m->temperature);
    str_format(ret->most_missing, sizeof ret->most_missing, "%lld", (long long)m->most_missing);
}

static void metadata_init(struct metadata *ret, const struct modelfile *m) {
    ret->n = 0;
    write_texts(m, ret);
    add_pair(ret, "brr.kind", "seizure");
    add_pair(ret, "brr.model", str_cstr(&ret->model));
    add_pair(ret, "brr.frontend", str_cstr(&ret->frontend));
    add_pair(ret, "brr.events", str_cstr(&ret->events));
    add_pair(ret, "brr.labels", str_cstr(&ret->labels));
    add_pair(ret, "brr.hop", ret->hop);
    add_pair(ret, "brr.step", ret->step);
    add_pair(ret, "brr.epoch", ret->epoch);
    add_pair(ret, "brr.manifest", m->manifest);
    add_pair(ret, "brr.prior", ret->prior);
    add_pair(ret, "format", "pt");
    if (m->bf16_bound > 0)
        add_pair(ret, MODELFILE_BF16_BOUND, ret->bf16_bound);
    if (m->temperature > 0 && m->temperature != 1)
        add_pair(ret, MODELFILE_TEMPERATURE, ret->temperature);
    if (m->most_missing)
        add_pair(ret, MODELFILE_MOST_MISSING, ret->most_missing);
    if (m->alarms.n)
        add_pair(ret, MODELFILE_ALARMS, str_cstr(&ret->alarms));
    if (*m->card)
        add_pair(ret, MODELFILE_CARD_KEY, m->card);
    if (m->patients)
        add_pair(ret, "brr.patients", m->patients);
    if (*m->notice)
        add_pair(ret, MODELFILE_NOTICE, m->notice);
    if (*m->init_from)
        add_pair(ret, "brr.init_from", m->init_from);
    if (*m->init_from_sha256)
        add_pair(ret, "brr.init_from_sha256", m->init_from_sha256);
}

static void metadata_done(struct metadata *m) {
    str_done(&m->model);
    str_done(&m->frontend);
    str_done(&m->events);
    str_done(&m->labels);
    str_done(&m->alarms);
}

int modelfile_save(const char *path, const struct modelfile *m, struct seizure_net *net, const struct param_average *average,
                   struct stream *s, char ret_sha256[65], struct err *err) {
    struct metadata metadata;
    metadata_init(&metadata, m);
    struct ckpt_file file = {path, metadata.pairs, metadata.n};
    int rc = ckpt_save_model(&file, seizure_params(net), average, s, ret_sha256, err);
    metadata_done(&metadata);
    return rc;
}

int modelfile_save_initial(const char *path, const struct modelfile *m, struct err *err) {
    OWNED(param_set_done) struct param_set table;
    char sha256[DIGEST_HEX_SIZE];
    int rc;
    param_set_init(&table);
    if ((rc = seizure_table(&m->model, &table, err)))
        return rc;
    OWNED_MEMORY float *values = calloc((size_t)(table.data_count + table.buffer_count) + 1, sizeof *values);
    OWNED_MEMORY struct safetensors_entry *entries = calloc((size_t)table.count + 1, sizeof *entries);
    if (!values || !entries)
        return err_set(err, ERR_EXHAUSTED, "out of memory writing %s", path);
    for (int i = 0; i < table.count; i++) {
        const struct param *p = &table.items[i];
        float *to = values + p->offset + (p->kind == PARAM_BUFFER ? table.data_count : 0);
        seizure_init_values(&m->model, p, 0, m->prior, to);
        entries[i] = (struct safetensors_entry){
            .name = p->name, .dtype = SAFETENSORS_F32, .rank = p->rank, .data = to, .bytes = (size_t)p->count * sizeof *to};
        memcpy(entries[i].shape, p->dim, sizeof p->dim);
    }
    OWNED(metadata_done) struct metadata metadata;
    metadata_init(&metadata, m);
    const struct safetensors_content content = {entries, (size_t)table.count, metadata.pairs, metadata.n};
    return safetensors_write(path, &content, sha256, err);
}
