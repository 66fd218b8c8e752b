#include "proto/json.h"

#include "base/base.h"

/* From here on a reader that has doubles alone would take a whole number for another one. */
#define EXACT (INT64_C(1) << 53)

/* A word of the list of fields. */
struct word {
    char member[48], field[48];
    bool nullable, positive;
    char otherwise[8]; /* of a text that is JSON; "": it is none */
    char bracket;      /* '(', '[', '{' or 0 */
    const char *inner; /* what stands in the brackets, to their end; NULL: every field */
};

static size_t copy_name(const char *at, char name[48]) {
    size_t len = strcspn(at, " =?~!([{}])");
    str_format(name, 48, "%.*s", (int)len, at);
    return len;
}

/* Behind the bracket that closes the one at `at`. */
static const char *closing(const char *at) {
    int depth = 0;
    for (; *at; at++) {
        depth += (strchr("([{", *at) != NULL) - (strchr(")]}", *at) != NULL);
        if (!depth)
            return at + 1;
    }
    return at;
}

/* Reads the word at *at and moves behind it; false at the end of the list or of the brackets that it stands in. */
static bool next_word(const char **at, struct word *ret) {
    const char *p = *at + strspn(*at, " ");
    *ret = (struct word){.nullable = false};
    if (!*p || strchr(")]}", *p))
        return false;
    p += copy_name(p, ret->member);
    p += *p == '=' ? 1 + copy_name(p + 1, ret->field) : 0;
    if (!*ret->field)
        memcpy(ret->field, ret->member, sizeof ret->field);
    ret->nullable = *p == '?';
    ret->positive = *p == '~';
    p += ret->nullable || ret->positive;
    if (*p == '!') {
        const size_t len = strcspn(p + 1, " ");
        str_format(ret->otherwise, sizeof ret->otherwise, "%.*s", (int)len, p + 1);
        p += 1 + len;
    } else if (*p == '(' || *p == '[' || *p == '{') {
        ret->bracket = *p;
        ret->inner = p + 1;
        p = closing(p);
    }
    *at = p;
    return true;
}

static const void *value_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *f) {
    return (const char *)message + f->offset;
}

/* The case of a field's oneof, or the count of a repeated field. */
static const void *quantifier_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *f) {
    return (const char *)message + f->quantifier_offset;
}

/* "succeeded" for JOB_STATE_SUCCEEDED of JobState: the words behind those of the type. */
static void put_enum(struct json_writer *w, const ProtobufCFieldDescriptor *f, const char *key, int value) {
    const ProtobufCEnumDescriptor *type = f->descriptor;
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);
    const char *name = found ? found->name : "";
    char text[48];
    if (!found) { /* of a newer program */
        json_put_i64(w, key, value);
        return;
    }
    for (const char *at = type->short_name; *at && *name; at++)
        name += isupper((unsigned char)*at) ? strcspn(name, "_") + 1 : 0;
    str_copy(text, sizeof text, name);
    for (char *at = text; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    json_put_str(w, key, text);
}

static void put_whole(struct json_writer *w, const char *key, bool negative, uint64_t value) {
    const uint64_t magnitude = negative ? -value : value;
    char text[24];
    const char *format = magnitude >= EXACT ? "\"%s%" PRIu64 "\"" : "%s%" PRIu64;
    str_format(text, sizeof text, format, negative ? "-" : "", magnitude);
    json_put_raw(w, key, text);
}

static void put_bytes(struct json_writer *w, const char *key, const ProtobufCBinaryData *bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    json_put_raw(w, key, "\"");
    for (size_t i = 0; i < bytes->len; i += 3) {
        const size_t n = bytes->len - i;
        const unsigned three = (unsigned)bytes->data[i] << 16 | (n > 1 ? (unsigned)bytes->data[i + 1] << 8 : 0) |
                               (n > 2 ? (unsigned)bytes->data[i + 2] : 0);
        const char four[] = {digits[three >> 18], digits[three >> 12 & 63], n > 1 ? digits[three >> 6 & 63] : '=',
                             n > 2 ? digits[three & 63] : '='};
        str_append(w->out, four, sizeof four);
    }
    str_puts(w->out, "\"");
}

static void put_words(struct json_writer *w, const struct word *word, const char *key, const char *text) {
    OWNED_POINTER(json_free) struct json *json = NULL;
    if (*word->otherwise)
        json_put_raw(w, key, *text && !json_parse(text, strlen(text), key, &json, NULL) ? text : word->otherwise);
    else
        json_put_str(w, key, word->nullable && !*text ? NULL : text);
}

/* One that is not set is null among all fields, and left out among named ones. */
static bool put_message(struct json_writer *w, const struct word *word, const char *key, const ProtobufCMessage *m) {
    if (m && word->bracket == '[')
        return message_json(w, m, word->inner);
    if (!m || w->depth >= JSON_DEPTH || !str_ok(w->out)) {
        if (!word->inner)
            json_put_null(w, key);
        return word->bracket != '{';
    }
    json_begin_object(w, key);
    const bool whole = message_json(w, m, word->inner);
    json_end(w, '}');
    return whole && word->bracket != '{';
}

/* The value at `at`, of the field's type, under `key` (NULL: within an array). */
static bool put_value(struct json_writer *w, const struct word *how, const char *key, const ProtobufCFieldDescriptor *f,
                      const void *at) {
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        put_words(w, how, key, *(char *const *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        json_put_bool(w, key, *(const protobuf_c_boolean *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        json_put_i64(w, key, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        json_put_i64(w, key, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        put_whole(w, key, false, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        put_whole(w, key, *(const int64_t *)at < 0, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        json_put_f64(w, key, (double)*(const float *)at);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        json_put_f64(w, key, how->positive && !(*(const double *)at > 0) ? NAN : *(const double *)at);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        put_enum(w, f, key, *(const int *)at);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        put_bytes(w, key, at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        return put_message(w, how, key, *(ProtobufCMessage *const *)at);
    }
    return !how->bracket || f->type == PROTOBUF_C_TYPE_MESSAGE;
}

static const ProtobufCFieldDescriptor *find(const ProtobufCMessage *message, const char *name) {
    return protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
}

/* A repeated message as one object. */
static bool put_members(struct json_writer *w, const struct word *word, ProtobufCMessage *const *items, size_t n) {
    const char *at = word->inner;
    struct word key, value;
    bool whole = next_word(&at, &key) & next_word(&at, &value);
    json_begin_object(w, word->member);
    for (size_t i = 0; whole && i < n; i++) {
        const ProtobufCFieldDescriptor *k = find(items[i], key.field), *f = find(items[i], value.field);
        whole = k && f && k->type == PROTOBUF_C_TYPE_STRING &&
                put_value(w, &value, *(const char *const *)value_of(items[i], k), f, value_of(items[i], f));
    }
    json_end(w, '}');
    return whole;
}

static size_t size_of(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(int64_t);
    default:
        return sizeof(int32_t);
    }
}

static bool put_repeated(struct json_writer *w, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *f,
                         const struct word *word) {
    const char *items = *(const char *const *)value_of(message, f);
    const size_t size = size_of(f->type), n = *(const size_t *)quantifier_of(message, f);
    bool whole = true;
    if (word->bracket == '{' && f->type != PROTOBUF_C_TYPE_MESSAGE)
        return false;
    if (word->bracket == '{')
        return put_members(w, word, (ProtobufCMessage *const *)(const void *)items, n);
    json_begin_array(w, word->member);
    for (size_t i = 0; i < n; i++)
        whole &= put_value(w, word, NULL, f, items + i * size);
    json_end(w, ']');
    return whole;
}

static bool put_field(struct json_writer *w, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *f,
                      const struct word *word) {
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return put_repeated(w, message, f, word);
    const bool other = f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && *(const uint32_t *)quantifier_of(message, f) != f->id;
    return other || put_value(w, word, word->member, f, value_of(message, f));
}

bool message_json(struct json_writer *w, const ProtobufCMessage *message, const char *fields) {
    struct word word = {.nullable = false};
    bool whole = true;
    for (unsigned i = 0; !fields && i < message->descriptor->n_fields; i++) {
        str_copy(word.member, sizeof word.member, message->descriptor->fields[i].name);
        whole &= put_field(w, message, &message->descriptor->fields[i], &word);
    }
    while (fields && next_word(&fields, &word)) {
        const ProtobufCFieldDescriptor *f = find(message, word.field);
        whole &= f && put_field(w, message, f, &word);
    }
    return whole;
}
