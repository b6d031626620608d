package expr

import (
	"errors"
	"fmt"
	"time"
)

// Env has the values of the names of a script at one step.
type Env struct {
	Values map[string]Value
	Now    time.Time
}

// maxWork is the limit of one evaluation: bytes that functions read and write, and rounds of PBKDF2.
const maxWork = 32 << 20

// Bytes evaluates a template.
func (t *Template) Bytes(env *Env) ([]byte, error) {
	e := newEvaluation(t.parts, env)
	var all []byte
	for i := range t.parts {
		data, err := e.part(i)
		if n := t.parts[i].expr; err == nil && n != nil {
			err = e.spend(n, len(data))
		}
		if err != nil {
			return nil, t.place(err)
		}
		all = append(all, data...)
	}
	return all, nil
}

// Value evaluates the result of [Expression].
func (t *Template) Value(env *Env) (Value, error) {
	v, err := newEvaluation(t.parts, env).node(t.parts[0].expr, 0)
	return v, t.place(err)
}

func (t *Template) place(err error) error {
	if inner, ok := errors.AsType[*failure](err); ok {
		return placed(t.source, inner.offset, inner.err)
	}
	return err
}

// failure is the error of a node.
type failure struct {
	offset int
	err    error
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// evaluation evaluates the parts of one template. Each part is evaluated once, in the order in which the
// others need it.
type evaluation struct {
	env    *Env
	parts  []part
	values [][]byte // nil: not evaluated
	sizes  []int    // -1: not evaluated
	work   int
}

func newEvaluation(parts []part, env *Env) *evaluation {
	e := &evaluation{env: env, parts: parts, values: make([][]byte, len(parts)), sizes: make([]int, len(parts))}
	for i, p := range parts {
		if e.sizes[i] = -1; p.expr == nil {
			e.values[i], e.sizes[i] = p.literal, len(p.literal)
		}
	}
	return e
}

// spend counts n bytes of work.
func (e *evaluation) spend(n *node, work int) error {
	if e.work += work; e.work > maxWork || work < 0 {
		return &failure{n.offset, errors.New("the computation takes too long: use less data or fewer iterations")}
	}
	return nil
}

// part returns the bytes of a part.
func (e *evaluation) part(i int) ([]byte, error) {
	if e.values[i] != nil {
		return e.values[i], nil
	}
	v, err := e.node(e.parts[i].expr, i)
	if err != nil {
		return nil, err
	}
	if e.values[i] = v.Bytes; v.Bytes == nil {
		e.values[i] = []byte{}
	}
	e.sizes[i] = len(v.Bytes)
	return e.values[i], nil
}

// partSize returns the size of a part, if possible without its bytes.
func (e *evaluation) partSize(i int) (size int, err error) {
	if e.sizes[i] < 0 {
		size, err = e.size(e.parts[i].expr, i)
		if err != nil {
			return 0, err
		}
		e.sizes[i] = size
	}
	return e.sizes[i], nil
}

// others returns the range of the parts that before or rest stands for in the part at.
func others(n *node, at, parts int) (from, to int) {
	if n.kind == beforeNode {
		return 0, at
	}
	return at + 1, parts
}

// node returns the value of an expression in the part at.
func (e *evaluation) node(n *node, at int) (v Value, err error) {
	switch n.kind {
	case literalNode:
		return n.value, nil
	case nameNode:
		return e.env.Values[n.name], nil
	case nowNode:
		return Value{Type: Int, Int: e.env.Now.Unix()}, nil
	case sumNode, differenceNode:
		return e.sum(n, at)
	case callNode:
		return e.call(n, at)
	}
	for i, to := others(n, at, len(e.parts)); i < to; i++ {
		data, err := e.part(i)
		if err == nil {
			err = e.spend(n, len(data))
		}
		if err != nil {
			return v, err
		}
		v.Bytes = append(v.Bytes, data...)
	}
	return v, nil
}

// maxInt bounds integers, so that a sum cannot overflow.
const maxInt = 1 << 62

func (e *evaluation) sum(n *node, at int) (v Value, err error) {
	left, err := e.node(n.args[0], at)
	if err != nil {
		return v, err
	}
	right, err := e.node(n.args[1], at)
	if err != nil {
		return v, err
	}
	if n.kind == differenceNode {
		right.Int = -right.Int
	}
	v = Value{Type: Int, Int: left.Int + right.Int}
	if max(left.Int, right.Int, v.Int) > maxInt || min(left.Int, right.Int, v.Int) < -maxInt {
		return v, &failure{n.offset, errors.New("the integer is out of range")}
	}
	return v, nil
}

func (e *evaluation) call(n *node, at int) (v Value, err error) {
	if n.call.sizeOnly {
		size, err := e.size(n.args[0], at)
		return Value{Type: Int, Int: int64(size)}, err
	}
	args := make([]Value, len(n.args))
	work := 0
	for i, arg := range n.args {
		if args[i], err = e.node(arg, at); err != nil {
			return v, err
		}
		work += len(args[i].Bytes)
	}
	if n.call.slow {
		work += rounds * int(min(maxWork/rounds+1, max(0, args[len(args)-1].Int)))
	}
	if err := e.spend(n, work); err != nil {
		return v, err
	}
	if v, err = n.call.apply(args); err != nil {
		return v, &failure{n.offset, fmt.Errorf("%s: %w", n.name, err)}
	}
	v.Type = n.call.result
	return v, e.spend(n, len(v.Bytes))
}

// size returns the size of an expression's bytes. It evaluates only what determines the size.
func (e *evaluation) size(n *node, at int) (size int, err error) {
	switch {
	case n.kind == beforeNode || n.kind == restNode:
		for i, to := others(n, at, len(e.parts)); i < to; i++ {
			one, err := e.partSize(i)
			if err != nil {
				return 0, err
			}
			size += one
		}
		return size, e.spend(n, 1)
	case n.kind == callNode && n.call.fixed > 0:
		return n.call.fixed, nil
	case n.kind == callNode && n.call.size != nil:
		sizes := make([]int, len(n.args))
		for i, arg := range n.args {
			if arg.typ == Int {
				continue
			}
			if sizes[i], err = e.size(arg, at); err != nil {
				return 0, err
			}
		}
		return n.call.size(sizes), e.spend(n, 1)
	}
	v, err := e.node(n, at)
	return len(v.Bytes), err
}

// need is what an expression needs from a part: its bytes, or only its size.
type need struct {
	part int
	size bool
}

// checkOrder returns an error if a part needs itself, as in ${md5(rest)}${md5(before)}.
func (t *Template) checkOrder() error {
	state := make(map[need]int) // 1: being visited, 2: done
	var visit func(need) error
	var walk func(n *node, at int, size bool) error
	visit = func(p need) error {
		n := t.parts[p.part].expr
		switch {
		case n == nil || state[p] == 2:
			return nil
		case state[p] == 1:
			return placed(t.source, n.offset, errors.New("the value needs itself: two parts need the bytes of each other"))
		}
		state[p] = 1
		err := walk(n, p.part, p.size)
		state[p] = 2
		return err
	}
	walk = func(n *node, at int, size bool) error {
		if n.kind == beforeNode || n.kind == restNode {
			for i, to := others(n, at, len(t.parts)); i < to; i++ {
				if err := visit(need{i, size}); err != nil {
					return err
				}
			}
			return nil
		}
		if size && n.kind == callNode && n.call.fixed > 0 {
			return nil
		}
		onlySize := n.kind == callNode && (n.call.sizeOnly || size && n.call.size != nil)
		for _, arg := range n.args {
			if onlySize && arg.typ == Int {
				continue
			}
			if err := walk(arg, at, onlySize); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range t.parts {
		if err := visit(need{i, false}); err != nil {
			return err
		}
	}
	return nil
}
