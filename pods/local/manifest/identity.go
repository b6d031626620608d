package manifest

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/internal/yamlpos"
)

// UmaskAnnotation is the pod annotation with the umask of its containers, in octal. Kubernetes has no
// field for it. With the suffix "." and the name of a container, it sets the umask of one container.
const UmaskAnnotation = "prober.dev/umask"

// The fields of a security context that a local process supports.
var (
	podSecurityFields       = sets.New("runAsUser", "runAsGroup", "runAsNonRoot", "supplementalGroups")
	containerSecurityFields = sets.New("runAsUser", "runAsGroup", "runAsNonRoot")
)

// Identity is the user of a container.
type Identity struct {
	User, Group uint32
	Groups      []uint32 // supplementary groups
	Home        string   // "/" if the host does not know the user
}

// IdentityOf returns the user that a container of a valid pod runs as; nil for the user of this process.
// The security context of the container overrides the pod's. Without runAsGroup, the group is the
// user's primary group. The supplementary groups are the user's groups on this host and the supplementalGroups of
// the pod. The error is a [*field.Error].
func IdentityOf(pod *v1.Pod, c *v1.Container) (*Identity, error) {
	id, err := identityOf(pod, c, field.NewPath("spec", "containers").Key(c.Name))
	if err != nil {
		return nil, err
	}
	return id, nil
}

// identityRequest has the values that the security contexts of a container and its pod request, with the path of
// each field.
type identityRequest struct {
	user, group         *int64
	nonRoot             bool
	groups              []int64
	userAt, groupAt, at *field.Path
	groupsAt            *field.Path
}

func identityRequestOf(pod *v1.Pod, c *v1.Container, path *field.Path) (w identityRequest) {
	own := field.NewPath("spec", "securityContext")
	w.userAt, w.groupAt, w.at = own.Child("runAsUser"), own.Child("runAsGroup"), own.Child("runAsNonRoot")
	w.groupsAt = own.Child("supplementalGroups")
	if s := pod.Spec.SecurityContext; s != nil {
		w.user, w.group, w.groups = s.RunAsUser, s.RunAsGroup, s.SupplementalGroups
		w.nonRoot = s.RunAsNonRoot != nil && *s.RunAsNonRoot
	}
	s := c.SecurityContext
	if s == nil {
		return w
	}
	path = path.Child("securityContext")
	if s.RunAsUser != nil {
		w.user, w.userAt = s.RunAsUser, path.Child("runAsUser")
	}
	if s.RunAsGroup != nil {
		w.group, w.groupAt = s.RunAsGroup, path.Child("runAsGroup")
	}
	if s.RunAsNonRoot != nil {
		w.nonRoot, w.at = *s.RunAsNonRoot, path.Child("runAsNonRoot")
	}
	return w
}

// identityOf is [IdentityOf] for the container at path.
func identityOf(pod *v1.Pod, c *v1.Container, path *field.Path) (*Identity, *field.Error) {
	w := identityRequestOf(pod, c, path)
	uid, gid := os.Geteuid(), os.Getegid()
	if w.nonRoot && w.user == nil && uid == 0 {
		return nil, field.Forbidden(w.at, "prober runs as root, and runAsUser is not set")
	}
	own := (w.user == nil || *w.user == int64(uid)) && (w.group == nil || *w.group == int64(gid)) && len(w.groups) == 0
	switch {
	case own:
		return nil, nil
	case uid != 0:
		at := w.userAt
		if w.user == nil || *w.user == int64(uid) {
			at = w.groupAt
			if w.group == nil {
				at = w.groupsAt
			}
		}
		return nil, field.Forbidden(at, fmt.Sprintf("needs root: prober runs as user %d with group %d", uid, gid))
	}
	id := &Identity{User: uint32(uid), Group: uint32(gid), Home: "/"}
	if w.user != nil {
		id.User = uint32(*w.user)
	}
	known, err := user.LookupId(strconv.Itoa(int(id.User)))
	if err == nil {
		id.Home = cmp.Or(known.HomeDir, "/")
		id.Groups = groupsOf(known)
	}
	switch {
	case w.group != nil:
		id.Group = uint32(*w.group)
	case err != nil:
		return nil, field.Invalid(w.userAt, *w.user, fmt.Sprintf("needs runAsGroup: this host has no user %d", *w.user))
	default:
		group, _ := strconv.ParseUint(known.Gid, 10, 32)
		id.Group = uint32(group)
	}
	for _, g := range w.groups {
		id.Groups = append(id.Groups, uint32(g))
	}
	slices.Sort(id.Groups)
	id.Groups = slices.Compact(id.Groups)
	return id, nil
}

// groupsOf returns the groups of a user on this host.
func groupsOf(u *user.User) (groups []uint32) {
	names, _ := u.GroupIds() // may be incomplete
	for _, name := range names {
		if g, err := strconv.ParseUint(name, 10, 32); err == nil {
			groups = append(groups, uint32(g))
		}
	}
	return groups
}

// UmaskOf returns the umask of a container of a valid pod; nil for the umask of this process.
func UmaskOf(pod *v1.Pod, container string) *uint32 {
	text, ok := pod.Annotations[UmaskAnnotation+"."+container]
	if !ok {
		text, ok = pod.Annotations[UmaskAnnotation]
	}
	mask, err := strconv.ParseUint(text, 8, 32)
	if !ok || err != nil {
		return nil
	}
	return new(uint32(mask))
}

// unprivileged returns an error for each container that this process cannot run as the requested user.
func unprivileged(pod *v1.Pod) (errs field.ErrorList) {
	each(pod, func(c *v1.Container, path *field.Path, _ bool) {
		if len(c.Command) == 0 {
			return
		}
		if _, err := identityOf(pod, c, path); err != nil && !hasError(errs, err) {
			errs = append(errs, err)
		}
	})
	return errs
}

// hasError reports whether errs already has err, since containers share the security context of their pod.
func hasError(errs field.ErrorList, err *field.Error) bool {
	return slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Error() == err.Error() })
}

// validateIdentity returns the errors of users, groups and umasks that do not depend on the host.
func validateIdentity(pod *v1.Pod) (errs field.ErrorList) {
	number := func(at *field.Path, n *int64) {
		if n != nil && (*n < 0 || *n > math.MaxInt32) {
			errs = append(errs, field.Invalid(at, *n, "must be between 0 and 2147483647"))
		}
	}
	if s := pod.Spec.SecurityContext; s != nil {
		at := field.NewPath("spec", "securityContext")
		number(at.Child("runAsUser"), s.RunAsUser)
		number(at.Child("runAsGroup"), s.RunAsGroup)
		for i := range s.SupplementalGroups {
			number(at.Child("supplementalGroups").Index(i), &s.SupplementalGroups[i])
		}
	}
	var names []string
	each(pod, func(c *v1.Container, path *field.Path, _ bool) {
		names = append(names, c.Name)
		if s := c.SecurityContext; s != nil {
			number(path.Child("securityContext", "runAsUser"), s.RunAsUser)
			number(path.Child("securityContext", "runAsGroup"), s.RunAsGroup)
		}
		if w := identityRequestOf(pod, c, path); w.nonRoot && w.user != nil && *w.user == 0 && len(c.Command) > 0 {
			if err := field.Forbidden(w.at, "runAsUser is 0"); !hasError(errs, err) {
				errs = append(errs, err)
			}
		}
	})
	return append(errs, validateUmasks(pod, names)...)
}

// validateUmasks returns the errors of the umask annotations of a pod. names are its containers.
func validateUmasks(pod *v1.Pod, names []string) (errs field.ErrorList) {
	for name, text := range pod.Annotations {
		container, one := strings.CutPrefix(name, UmaskAnnotation+".")
		if name != UmaskAnnotation && !one {
			continue
		}
		at := field.NewPath("metadata", "annotations").Key(name)
		if one && !slices.Contains(names, container) {
			errs = append(errs, field.Invalid(at, text, fmt.Sprintf("there is no container %q%s", container, yamlpos.Known(container, names))))
		}
		if mask, err := strconv.ParseUint(text, 8, 32); err != nil || mask > 0o777 {
			errs = append(errs, field.Invalid(at, text, "must be an octal number from 000 to 777, such as 027"))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
	return errs
}
