package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Budgets are the most that a plugin may use in `prober plugin check`. Unlike [Limits], no host applies them. A zero
// field is not set.
type Budgets struct {
	Module int           // bytes of the module
	Memory int           // bytes of linear memory after a test case
	Fuel   int           // units of fuel of a test case, about one per instruction
	Start  time.Duration // time to load the compiled module and start an instance
}

// BudgetName is a budget's name in manifests.
type BudgetName string

// The names of budgets, in display order.
const (
	BudgetModule BudgetName = "module"
	BudgetMemory BudgetName = "memory"
	BudgetFuel   BudgetName = "fuel"
	BudgetStart  BudgetName = "start"
)

// BudgetNames returns the names of all budgets, in display order.
func BudgetNames() []BudgetName {
	return []BudgetName{BudgetModule, BudgetMemory, BudgetFuel, BudgetStart}
}

// Defaults of [Budgets]. The defaults of Module and Memory are the limits of the plugin.
const (
	DefaultFuelBudget  = 100_000_000
	DefaultStartBudget = time.Second
)

// EffectiveBudgets returns the budgets of m, with defaults for those that it does not set.
func (m *Manifest) EffectiveBudgets() Budgets {
	limits := Resolve(m.Limits, Limits{})
	return Budgets{
		Module: cmp.Or(m.Budgets.Module, limits.Module), Memory: cmp.Or(m.Budgets.Memory, limits.Memory),
		Fuel: cmp.Or(m.Budgets.Fuel, DefaultFuelBudget), Start: cmp.Or(m.Budgets.Start, DefaultStartBudget),
	}
}

// Set sets the budget called name from text: "2Mi" for bytes, "100ms" for a duration, "5000000" for a count.
func (b *Budgets) Set(name BudgetName, text string) error {
	switch name {
	case BudgetModule:
		return setSize(&b.Module, text, MaxModule)
	case BudgetMemory:
		return setSize(&b.Memory, text, MaxMemory)
	case BudgetFuel:
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return errors.New("must be an integer of at least 1")
		}
		b.Fuel = n
		return nil
	case BudgetStart:
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fmt.Errorf("%.40q is not a duration above 0, such as 100ms", text)
		}
		b.Start = d
		return nil
	default:
		return fmt.Errorf("unknown budget %q", name)
	}
}

// setSize parses a size of at most top bytes.
func setSize(to *int, text string, top int) error {
	value, err := ParseSize(text)
	if err != nil {
		return err
	}
	if value > uint64(top) {
		return fmt.Errorf("%s is above %s, the most that is allowed", text, FormatSize(top))
	}
	*to = int(value)
	return nil
}
