/* SPDX-License-Identifier: BSD-3-Clause */
/* What is computed of one row of logits, and of one weight, for REAL: on the processor
 * (numbers_tmpl.h), and on a GPU (kernels_tmpl.h), as functions that FUNCTION begins. EXP and SQRT
 * are of REAL; OPERAND rounds what is multiplied. */

/* Softmax of one row of logits into `delta`, less 1 at the label, times `scale`; returns the loss.
 * A NaN among the logits gives a NaN. */
FUNCTION double softmax_row(const REAL *logits, size_t classes, uint32_t label, double scale,
			    REAL *delta)
{
	REAL top = logits[0];
	double sum = 0;

	for (size_t j = 1; j < classes; j++)
		top = logits[j] > top ? logits[j] : top;
	for (size_t j = 0; j < classes; j++) {
		delta[j] = EXP(logits[j] - top);
		sum += delta[j];
	}
	for (size_t j = 0; j < classes; j++)
		delta[j] = (REAL)(delta[j] / sum * scale);
	delta[label] -= (REAL)scale;
	for (size_t j = 0; j < classes; j++)
		delta[j] = OPERAND(delta[j]);
	return log(sum) + top - logits[label];
}

FUNCTION uint32_t largest(const REAL *logits, size_t classes)
{
	uint32_t best = 0;

	for (uint32_t j = 1; j < classes; j++)
		best = logits[j] > logits[best] ? j : best;
	return best;
}

/* An update, as REAL. */
struct scales {
	REAL rate, gain, decay, keep, add, keep2, add2, epsilon, whole, whole2, shrink;
};

FUNCTION struct scales scales_of(const struct update *u)
{
	const struct scales k = { (REAL)u->rate,	(REAL)u->gain,	     (REAL)u->decay,
				  (REAL)u->keep,	(REAL)(1 - u->keep), (REAL)u->keep2,
				  (REAL)(1 - u->keep2), (REAL)u->epsilon,    (REAL)u->whole,
				  (REAL)u->whole2,	(REAL)u->shrink };

	return k;
}

/* A weight, and what is kept of it. */
struct one {
	REAL w, v, s;
};

FUNCTION struct one descend(const struct scales *k, struct one o, REAL x)
{
	o.w -= k->rate * x;
	return o;
}

FUNCTION struct one momentum(const struct scales *k, struct one o, REAL x)
{
	o.v = k->keep * o.v + x;
	o.w -= k->rate * o.v;
	return o;
}

FUNCTION struct one nesterov(const struct scales *k, struct one o, REAL x)
{
	o.v = k->keep * o.v + x;
	o.w -= k->rate * (x + k->keep * o.v);
	return o;
}

/* Where there was no gradient yet there is nothing to divide by. */
FUNCTION struct one adagrad(const struct scales *k, struct one o, REAL x)
{
	o.v += k->keep * x * x;
	o.w -= k->rate * x / (SQRT(o.v) + (REAL)1e-10);
	return o;
}

FUNCTION struct one adam_means(const struct scales *k, struct one o, REAL x)
{
	o.v = k->keep * o.v + k->add * x;
	o.s = k->keep2 * o.s + k->add2 * x * x;
	return o;
}

FUNCTION REAL adam_way(const struct scales *k, struct one o)
{
	return o.v * k->whole / (SQRT(o.s * k->whole2) + k->epsilon) + k->shrink * o.w;
}

FUNCTION struct one adam(const struct scales *k, struct one o, REAL x)
{
	o = adam_means(k, o, x);
	o.w -= k->rate * adam_way(k, o);
	return o;
}

/* Number `i` of vectors, moved as `name` says, of which `velocities` are kept. */
#define MOVE_ONE(name, velocities)                                                                 \
	{                                                                                          \
		const struct one was = { w[i], velocities > 0 ? v[i] : 0,                          \
					 velocities > 1 ? s[i] : 0 };                              \
		const struct one is = name(&k, was, k.gain * DECODE(g[i]) + k.decay * was.w);      \
                                                                                                   \
		new_w[i] = is.w;                                                                   \
		if (velocities > 0)                                                                \
			new_v[i] = is.v;                                                           \
		if (velocities > 1)                                                                \
			new_s[i] = is.s;                                                           \
	}
