package httpapi

import "slices"

// Role says what a token may do. Each role has the rights of those before it.
type Role string

// The roles, from the least to the most.
const (
	RoleRead    Role = "read"
	RoleOperate Role = "operate"
	RoleApprove Role = "approve"
	RoleAdmin   Role = "admin"
	// roleNone marks a call that is open to everybody.
	roleNone Role = ""
)

var roles = []Role{roleNone, RoleRead, RoleOperate, RoleApprove, RoleAdmin}

// allows says whether a caller with the role r may do what needs another.
func (r Role) allows(needed Role) bool {
	return r.known() && slices.Index(roles, r) >= slices.Index(roles, needed)
}

func (r Role) known() bool { return r != roleNone && slices.Contains(roles, r) }
