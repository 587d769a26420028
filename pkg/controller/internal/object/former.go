// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

// FormerInstanceAnnotation on an instance names the one that represented its host before, and has handed it over because its entry was renamed.
// What names instances, as a rollback of their pool does, follows it to the new name.
const FormerInstanceAnnotation = "windows.openshift.io/former-instance"
