// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package validation holds the rules for API objects that cannot be said in tags
// on the types: formats, and rules over several fields. It works on the internal types
// of objects and on the served types of actions, which are never stored. It imports no
// package of this project from elsewhere than pkg/apis.
package validation

import (
	"crypto/rsa"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"unicode"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/hostkey"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// ValidateWindowsInstance checks a new instance. Ranges, lengths and required
// fields are declared on the type and checked elsewhere.
func ValidateWindowsInstance(instance *windows.WindowsInstance) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&instance.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validateMetadata(&instance.ObjectMeta, nil)...)
	if _, err := v1alpha1.TakeHostKeys(instance.ObjectMeta.DeepCopy()); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(v1alpha1.HostKeysAnnotation), instance.Annotations[v1alpha1.HostKeysAnnotation], err.Error()))
	}
	return append(errs, validateInstanceSpec(&instance.Spec, field.NewPath("spec"))...)
}

// ValidateWindowsInstanceUpdate checks a changed instance.
func ValidateWindowsInstanceUpdate(instance, old *windows.WindowsInstance) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&instance.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateMetadata(&instance.ObjectMeta, &old.ObjectMeta)...)
	if was := old.Spec.ProviderID; v1alpha1.OtherProviderID(was, instance.Spec.ProviderID) && old.Status.MachineID != "" {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "providerID"), fmt.Sprintf(
			"cannot be changed from %s: it is the ID of the machine that this instance stands for, on which something of ours is; delete the instance, and create another one", was)))
	}
	if node, name := old.Status.Node, instance.Spec.NodeName; node != nil && name != "" && name != old.Spec.NodeName && name != node.Name {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "nodeName"), fmt.Sprintf(
			"cannot be changed while the host is Node %s: a Node keeps its name; delete the instance, and create it again with the new name when the host was cleaned", node.Name)))
	}
	errs = append(errs, validateLeaving(instance, old)...)
	spec := field.NewPath("spec")
	return append(errs, added(validateInstanceSpec(&instance.Spec, spec), validateInstanceSpec(&old.Spec, spec))...)
}

// validateLeaving keeps an instance that is being deleted from escaping the limit of removals: that
// is the limit of its pool, and removals that a source asked for have passed it before.
func validateLeaving(instance, old *windows.WindowsInstance) field.ErrorList {
	if old.DeletionTimestamp.IsZero() {
		return nil
	}
	var errs field.ErrorList
	if source := instance.Annotations[v1alpha1.SourceAnnotation]; source != "" && source != old.Annotations[v1alpha1.SourceAnnotation] {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(v1alpha1.SourceAnnotation), "cannot be set while the instance is being deleted"))
	}
	if !equality.Semantic.DeepEqual(instance.Spec.PoolRef, old.Spec.PoolRef) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "poolRef"), "cannot be changed while the instance is being deleted"))
	}
	return errs
}

// ValidateWindowsInstanceStatusUpdate checks a changed status.
func ValidateWindowsInstanceStatusUpdate(instance, old *windows.WindowsInstance) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&instance.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("status")
	return append(errs, added(validateInstanceStatus(&instance.Status, path), validateInstanceStatus(&old.Status, path))...)
}

func validateInstanceStatus(status *windows.WindowsInstanceStatus, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateConditions(status.Conditions, path.Child("conditions"))
	for i, key := range status.HostKeys {
		errs = append(errs, validateHostKey(key.Type+" "+key.Key, path.Child("hostKeys").Index(i).Child("key"))...)
	}
	return errs
}

func validateInstanceSpec(spec *windows.WindowsInstanceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Address != "" { // that it is required is declared on the type
		errs = append(errs, validateAddress(spec.Address, path.Child("address"))...)
	}
	errs = append(errs, validateUsername(spec.Username, path.Child("username"))...)
	for i, key := range spec.HostKeys {
		errs = append(errs, validatePin(key, path.Child("hostKeys").Index(i))...)
	}
	if ref := spec.CredentialsSecretRef; ref != nil {
		errs = append(errs, validateName(ref.Name, path.Child("credentialsSecretRef", "name"))...)
	}
	errs = append(errs, validateBastion(spec.Bastion, path.Child("bastion"))...)
	if ref := spec.PoolRef; ref != nil {
		errs = append(errs, validateName(ref.Name, path.Child("poolRef", "name"))...)
	}
	if spec.NodeName != "" && !v1alpha1.IsComputerName(spec.NodeName) {
		errs = append(errs, field.Invalid(path.Child("nodeName"), spec.NodeName, "must be at most 15 lower-case letters, digits and hyphens, begin and end with a letter or digit, and not be a number: the computer name of Windows and the name of the Node"))
	}
	return errs
}

// validateAddress accepts what can be dialed: an IP address or a DNS name.
func validateAddress(address string, path *field.Path) field.ErrorList {
	if ip, err := netip.ParseAddr(address); err == nil {
		if ip.Zone() != "" {
			return field.ErrorList{field.Invalid(path, address, "must not have a zone, which means something on one machine only")}
		}
		if ip.IsUnspecified() || ip.IsMulticast() {
			return field.ErrorList{field.Invalid(path, address, "must be the address of one host")}
		}
		return nil
	}
	if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
		return field.ErrorList{field.Invalid(path, address, "must be an address without a port; the port goes into spec.port")}
	}
	if looksLikeIPv4(address) {
		return field.ErrorList{field.Invalid(path, address, "is not a valid IPv4 address")}
	}
	name := strings.TrimSuffix(strings.ToLower(address), ".")
	if problems := utilvalidation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return field.ErrorList{field.Invalid(path, address, "must be an IPv4 address, an IPv6 address or a DNS name")}
	}
	return nil
}

// looksLikeIPv4 says whether s consists of digits and dots only. As a DNS name it
// would be valid, but nobody means it as one.
func looksLikeIPv4(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.") == ""
}

// validateUsername refuses what no Windows account name can hold: the characters
// of "User name" in the Windows documentation of NetUserAdd, and control
// characters. A domain account is written as DOMAIN\user or user@domain.
func validateUsername(name string, path *field.Path) field.ErrorList {
	if strings.ContainsAny(name, `"/[]:;|=,+*?<>`) || strings.Count(name, `\`) > 1 {
		return field.ErrorList{field.Invalid(path, name, `must not contain any of "/[]:;|=,+*?<> and at most one backslash`)}
	}
	if strings.IndexFunc(name, unicode.IsControl) >= 0 || strings.TrimSpace(name) != name {
		return field.ErrorList{field.Invalid(path, name, "must not contain control characters, nor begin or end with a space")}
	}
	return nil
}

// minRSABits is what NIST SP 800-131A still allows, and what ssh-keygen makes at least.
const minRSABits = 2048

// validatePin checks a host key that somebody wants to be trusted.
func validatePin(line string, path *field.Path) field.ErrorList {
	if errs := validateHostKey(line, path); len(errs) > 0 {
		return errs
	}
	key, _ := hostkey.Parse(line) // it was checked
	if public, ok := key.(ssh.CryptoPublicKey); ok {
		if short, ok := public.CryptoPublicKey().(*rsa.PublicKey); ok && short.N.BitLen() < minRSABits {
			return field.ErrorList{field.Invalid(path, line, fmt.Sprintf("is an RSA key of %d bits, and needs %d: pin the ED25519 key of the host, or make it another RSA key with ssh-keygen", short.N.BitLen(), minRSABits))}
		}
	}
	return nil
}

func validateHostKey(line string, path *field.Path) field.ErrorList {
	key, err := hostkey.Parse(line)
	if err != nil {
		return field.ErrorList{field.Invalid(path, line, "must be one public key as in a known_hosts file: type, space, base64; `ssh-keyscan -p PORT ADDRESS` prints the keys of a host")}
	}
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoRSA, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		return nil
	}
	return field.ErrorList{field.NotSupported(path, key.Type(), []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA})}
}

func validateName(name string, path *field.Path) field.ErrorList {
	if name == "" { // that it is required is declared on the type
		return nil
	}
	var errs field.ErrorList
	for _, problem := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, fmt.Sprintf("is not the name of an object: %s", problem)))
	}
	return errs
}
