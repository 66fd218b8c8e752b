#include "client/brrctl/detect/seen.h"

#include "base/needed.h"
#include "base/order.h"
#include "brr/v1/checkpoints.pb-c.h"
#include "eeg/labels.h"
#include "store/digest.h"
#include "windows/patients.h"

enum { HEAD_MS = 30000, MOST_HEAD = 100 << 20, PREFIX = 8 };

OWNABLE(struct model_patients, model_patients_free)

/* Bytes of a safetensors header with its length in front; 0: not known yet, or too many. */
static size_t head_bytes(const struct str *head) {
    uint64_t n = 0;
    if (head->len < PREFIX)
        return 0;
    for (int i = PREFIX; i-- > 0;)
        n = n << 8 | (unsigned char)str_cstr(head)[i];
    return n < MOST_HEAD ? (size_t)n + PREFIX : 0;
}

/* The head of the model's file, and the SHA-256 that the daemon states. */
static bool fetch_head(brr_client *client, const char *model, struct str *head, char sha256[DIGEST_HEX_SIZE]) {
    OWNED_POINTER(brr_rpc_close) brr_rpc *rpc = NULL;
    Brr__V1__GetCheckpointRequest in = BRR__V1__GET_CHECKPOINT_REQUEST__INIT;
    struct brr_error err;
    const void *data;
    size_t len;
    in.ref = (char *)(uintptr_t)model;
    len = protobuf_c_message_get_packed_size(&in.base);
    OWNED_MEMORY uint8_t *bytes = needed(malloc(len + 1));
    protobuf_c_message_pack(&in.base, bytes);
    if (brr_rpc_open(client, "/brr.v1.Checkpoints/Get", HEAD_MS, &rpc, &err) || brr_rpc_send(rpc, bytes, len, -1, &err) ||
        brr_rpc_half_close(rpc, &err))
        return false;
    while ((!head_bytes(head) || head->len < head_bytes(head)) && head->len < MOST_HEAD &&
           !brr_rpc_next(rpc, -1, &data, &len, &err)) {
        Brr__V1__CheckpointPart *part = brr__v1__checkpoint_part__unpack(NULL, len, data);
        if (!part)
            return false;
        if (part->checkpoint)
            str_copy(sha256, DIGEST_HEX_SIZE, part->checkpoint->sha256);
        str_append(head, (const char *)part->data.data, part->data.len);
        brr__v1__checkpoint_part__free_unpacked(part, NULL);
    }
    return head_bytes(head) && head->len >= head_bytes(head);
}

static struct model_patients *patients_of(const struct str *head) {
    OWNED_POINTER(json_free) struct json *json = NULL;
    struct model_patients *found = NULL;
    if (json_parse(str_cstr(head) + PREFIX, head_bytes(head) - PREFIX, "model", &json, NULL))
        return NULL;
    const char *text = json_str(json_get(json_get(json, "__metadata__"), "brr.patients"), NULL);
    return model_patients_read(text, &found, NULL) ? NULL : found;
}

struct person {
    char *name; /* first: order_strings */
    bool unnamed, seen;
};

static bool knows(const struct model_patients *known, const char *dataset, const char *name) {
    return known && model_patients_role(known, dataset, name) != PATIENT_TEST;
}

/* By the whole path; one that names no patient goes by its path below the folder, as in a training. */
static struct person person_of(const struct detect_item *item, const struct model_patients *k, const char *dataset) {
    char name[4096], below[4096];
    struct person p = {0};
    if (labels_patient(item->relative, LABELS_PATIENT_AUTO, below, sizeof below, NULL, NULL) ||
        labels_patient(item->path, LABELS_PATIENT_AUTO, name, sizeof name, &p.unnamed, NULL))
        return (struct person){.name = needed(strdup(item->path)), .unnamed = true};
    p.name = needed(strdup(name));
    p.seen = knows(k, dataset, name) || knows(k, dataset, below);
    return p;
}

/* In order of their names, each once. */
static int list_people(const struct detect_item *items, int n, const struct model_patients *known, const char *dataset,
                       struct person *people) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        people[i] = person_of(&items[i], known, dataset);
    SORT(people, n, order_strings);
    for (int i = 0; i < n; i++)
        if (kept && !strcmp(people[kept - 1].name, people[i].name)) {
            people[kept - 1].seen |= people[i].seen;
            free(people[i].name);
        } else {
            people[kept++] = people[i];
        }
    return kept;
}

void seen_find(brr_client *client, const char *model, const char *dataset, const struct detect_item *items, int n,
               struct outputs_model *ret) {
    OWNED(str_done) struct str head = str_of(MOST_HEAD);
    OWNED_MEMORY struct person *people = needed(calloc((size_t)n + 1, sizeof *people));
    int unnamed = 0, seen = 0;
    *ret = (struct outputs_model){.seen = -1};
    str_copy(ret->name, sizeof ret->name, model);
    OWNED_POINTER(model_patients_free)
    struct model_patients *known = fetch_head(client, model, &head, ret->sha256) ? patients_of(&head) : NULL;
    ret->patients = list_people(items, n, known, dataset, people);
    for (int i = 0; i < ret->patients; i++) {
        seen += people[i].seen;
        unnamed += people[i].unnamed;
        free(people[i].name);
    }
    if (known && model_patients_known(known) && (seen || !unnamed || model_patients_nobody(known)))
        ret->seen = seen;
}

const char *seen_words(const struct outputs_model *m, char buf[64]) {
    *buf = '\0';
    if (m->seen < 0)
        str_copy(buf, 64, "seen: not known");
    else if (m->seen)
        str_format(buf, 64, "seen: %d of %d patient%s", m->seen, m->patients, m->patients == 1 ? "" : "s");
    return buf;
}

void seen_json(const struct outputs_model *m, struct json_writer *w) {
    if (m->seen < 0)
        json_put_null(w, "patients_seen");
    else
        json_put_i64(w, "patients_seen", m->seen);
    json_put_i64(w, "patients", m->patients);
}
