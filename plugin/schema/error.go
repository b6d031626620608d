package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// FieldError is the error for one field of a config.
type FieldError struct {
	Field   string // path of the field, such as config.limits.maxLag
	Message string
}

// Error returns "FIELD: message".
func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// schemaError returns the errors of an invalid schema.
func schemaError(err error) error {
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*jsonschema.ValidationError](e.Err); ok {
			return fieldErrors(v, "")
		}
	}
	return err
}

func configError(err error) error {
	v, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fmt.Errorf("config: %w", err)
	}
	return fieldErrors(v, "config")
}

// fieldErrors joins the leaf errors of v, sorted. The validator ranges over maps, so it returns them
// in a random order.
func fieldErrors(v *jsonschema.ValidationError, root string) error {
	errs := leaves(v, root)
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// leaves returns the leaf errors of v, each with its field's path.
func leaves(v *jsonschema.ValidationError, root string) []error {
	if len(v.Causes) > 0 {
		var errs []error
		for _, cause := range v.Causes {
			errs = append(errs, leaves(cause, root)...)
		}
		return errs
	}
	if unknown, ok := v.ErrorKind.(*kind.AdditionalProperties); ok {
		slices.Sort(unknown.Properties)
	}
	path := strings.Join(append([]string{root}, v.InstanceLocation...), ".")
	return []error{&FieldError{strings.TrimPrefix(path, "."), messageOf(v)}}
}

// durationPattern is the pattern of durations in the schemas of prober's plugins.
const durationPattern = `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`

// messageOf returns the message of v without strings of the config. These may be passwords, and some
// users can see the message but not the config.
func messageOf(v *jsonschema.ValidationError) string {
	switch k := v.ErrorKind.(type) {
	case *kind.Pattern:
		if k.Want == durationPattern {
			return "must be a duration such as 900ms or 720h, without days"
		}
		return fmt.Sprintf("the value does not match pattern '%s'", k.Want)
	case *kind.Format:
		return fmt.Sprintf("the value is not valid %s", k.Want)
	}
	if unit := v.BasicOutput(); unit.Error != nil {
		return unit.Error.String()
	} else if len(unit.Errors) > 0 && unit.Errors[0].Error != nil {
		return unit.Errors[0].Error.String()
	}
	return "invalid"
}
