/* Changes of a network between ticks. */

#include "base/subnormals.h"
#include "burst/burst_parts.h"

int burst_field_of(const char *name, enum burst_field *ret, struct err *err) {
    static const char *const names[] = {
#define BURST_FIELD_NAME(field, text) #text,
        BURST_FIELDS(BURST_FIELD_NAME)
#undef BURST_FIELD_NAME
    };
    struct str all = str_of(256);
    for (int i = 0; i < BURST_FIELD_COUNT; i++) {
        if (!strcmp(names[i], name)) {
            str_done(&all);
            *ret = (enum burst_field)i;
            return 0;
        }
        str_printf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    int rc = err_set(err, ERR_INVALID, "a neuron has no '%s'; expected one of %s", name, str_cstr(&all));
    str_done(&all);
    return rc;
}

static int check_id(const struct burst *b, const char *what, uint32_t id, struct err *err) {
    return id < b->net.n ? 0 : err_set(err, ERR_INVALID, "%s %u; expected less than the %u neurons", what, id, b->net.n);
}

/* ---- neurons --------------------------------------------------------------------------------------------------- */

static int check_value(enum burst_field field, double value, struct err *err) {
    const char *expected = NULL;
    switch (field) {
    case BURST_V:
        expected = isfinite((float)value) ? NULL : "a finite number";
        break;
    case BURST_LEAK:
        expected = value >= 0 && value <= 1 ? NULL : "a number from 0 to 1";
        break;
    case BURST_REFRACTORY:
    case BURST_FIRE_LIMIT:
    case BURST_SNOOZE:
        expected = value >= 0 && value <= 65535 && value == floor(value) ? NULL : "a whole number from 0 to 65535";
        break;
    case BURST_ACCUMULATE:
        expected = value == 0 || value == 1 ? NULL : "0 or 1";
        break;
    default:
        expected = isnan(value) ? "a number" : NULL;
    }
    return expected ? err_set(err, ERR_INVALID, "a neuron cannot have the value %g there; expected %s", value, expected) : 0;
}

static int put_float(struct burst *b, float *array, uint32_t id, float value, struct err *err) {
    float was = array[id];
    array[id] = value;
    int rc = burst_device_neuron(b, array, id, err);
    if (rc)
        array[id] = was;
    return rc;
}

static int put_count(struct burst *b, uint16_t *array, uint32_t id, uint16_t value, struct err *err) {
    uint16_t was = array[id];
    array[id] = value;
    int rc = burst_device_neuron(b, array, id, err);
    if (rc)
        array[id] = was;
    return rc;
}

static int put_flag(struct burst *b, uint32_t id, uint8_t flag, bool on, struct err *err) {
    uint8_t *flags = b->c->net.flags, was = flags[id];
    flags[id] = on ? was | flag : (uint8_t)(was & ~flag);
    int rc = burst_device_neuron(b, flags, id, err);
    if (rc)
        flags[id] = was;
    return rc;
}

static int set_field(struct burst *b, uint32_t id, enum burst_field field, double value, struct err *err) {
    struct spike_net *net = &b->c->net;
    int rc = check_value(field, value, err);
    if (rc)
        return rc;
    b->unsettled = true;
    switch (field) {
    case BURST_V:
        rc = put_float(b, net->v, id, (float)value, err);
        return rc ? rc : burst_device_stale(b, err);
    case BURST_THRESHOLD:
        return put_float(b, net->threshold, id, (float)value, err);
    case BURST_THRESHOLD_LIMIT:
        return put_float(b, net->threshold_limit, id, value > 0 ? (float)value : INFINITY, err);
    case BURST_LEAK:
        return put_float(b, net->leak, id, (float)value, err);
    case BURST_EXCITABILITY:
        return put_float(b, net->excitability, id, (float)value, err);
    case BURST_REFRACTORY:
        rc = put_count(b, net->refractory, id, (uint16_t)value, err);
        return rc || value > 0 ? rc : put_count(b, net->countdown, id, 0, err);
    case BURST_FIRE_LIMIT:
        return put_count(b, net->fire_limit, id, value > 0 ? (uint16_t)value : SPIKE_UNLIMITED, err);
    case BURST_SNOOZE:
        return put_count(b, net->snooze, id, (uint16_t)value, err);
    default:
        rc = put_flag(b, id, SPIKE_ACCUMULATES, value > 0, err);
        return rc ? rc : burst_device_stale(b, err);
    }
}

int burst_set_neuron(struct burst *b, uint32_t id, enum burst_field field, double value, struct err *err) {
    int rc = check_id(b, "neuron", id, err);
    if (rc)
        return rc;
    unsigned was = subnormals_keep(); /* the calling thread may flush them */
    rc = set_field(b, id, field, value, err);
    subnormals_restore(was);
    return rc;
}

int burst_delete_neuron(struct burst *b, uint32_t id, struct err *err) {
    uint32_t n = 0, kept = 0;
    int rc;
    if ((rc = check_id(b, "neuron", id, err)) || (rc = burst_device_fired_get(b, b->ids, &n, err)))
        return rc;
    for (uint32_t i = 0; i < n; i++)
        if (b->ids[i] != id)
            b->ids[kept++] = b->ids[i];
    if (kept < n && (rc = burst_device_fired(b, b->ids, kept, err)))
        return rc;
    return put_flag(b, id, SPIKE_ALIVE, false, err);
}

/* ---- synapses and areas ---------------------------------------------------------------------------------------- */

/* *ret_n synapses from *ret_first on; NOT_FOUND where there is none. */
static int find(struct burst *b, uint32_t source, uint32_t target, uint32_t ret[2], struct err *err) {
    int rc;
    if ((rc = check_id(b, "source neuron", source, err)) || (rc = check_id(b, "target neuron", target, err)))
        return rc;
    uint32_t first = 0, n = connectome_find(b->c, source, target, &first);
    if (n == 0)
        return err_set(err, ERR_NOT_FOUND, "no synapse leads from neuron %u to neuron %u", source, target);
    ret[0] = first;
    ret[1] = n;
    return 0;
}

int burst_set_synapse(struct burst *b, const struct burst_synapse *y, struct err *err) {
    uint32_t at[2] = {0};
    if (y->weight < -1 || y->weight > 255 || y->psp < -1 || y->psp > 255 || y->type < -1 || y->type > 1)
        return err_set(err, ERR_INVALID, "weight %d, psp %d, type %d; expected 0 to 255, 0 to 255, 0 or 1, or -1 to keep one",
                       y->weight, y->psp, y->type);
    int rc = find(b, y->source, y->target, at, err);
    for (uint32_t i = at[0]; !rc && y->type < 0 && y->weight > 0 && i < at[0] + at[1]; i++)
        if (connectome_at(b->c, y->source, i).weight == 0)
            rc = err_set(err, ERR_INVALID,
                         "a synapse from neuron %u to neuron %u has weight 0 and thus no type to keep; send its type", y->source,
                         y->target);
    for (uint32_t i = at[0]; !rc && i < at[0] + at[1]; i++) {
        struct connectome_synapse was = connectome_at(b->c, y->source, i);
        int weight = y->weight < 0 ? abs(was.weight) : y->weight, type = y->type < 0 ? was.weight < 0 : y->type;
        rc = connectome_put(b->c, y->source, i, type ? -weight : weight, y->psp < 0 ? was.psp : (uint8_t)y->psp, err);
    }
    if (rc)
        return rc;
    b->unsettled = true;
    rc = burst_device_row(b, y->source, err);
    bool follows = b->c->net.flags[y->source] & SPIKE_MP_DRIVEN; /* then its p is the device's */
    return rc || follows ? rc : burst_device_neuron(b, b->c->net.psp, y->source, err);
}

int burst_delete_synapse(struct burst *b, uint32_t source, uint32_t target, struct err *err) {
    uint32_t at[2] = {0};
    int rc = find(b, source, target, at, err);
    if (rc)
        return rc;
    connectome_drop(b->c, source, at[0], at[1]);
    b->unsettled = true;
    return burst_device_row(b, source, err);
}

int burst_set_area(struct burst *b, int index, const struct connectome_area *area, struct err *err) {
    if (index < 0 || index >= b->c->n_areas)
        return err_set(err, ERR_INVALID, "area %d; expected less than the %d areas", index, b->c->n_areas);
    if (!isfinite(area->power) || fabsf(area->power) >= 0x1p40f)
        return err_set(err, ERR_INVALID, "power %g; expected a finite number below 2^40 in size", (double)area->power);
    int rc = area->psp_divide ? connectome_make_divisors(b->c, err) : 0;
    if (rc)
        return rc;
    struct connectome_area *is = &b->c->areas[index];
    COPY_MEMBERS(*is, *area, psp_divide, mp_driven_psp, power);
    b->unsettled = b->areas_changed = true;
    return 0;
}
