// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that are the same under each policy.

/// `name: module::function;` is a test of that function of one type, a policy.
macro_rules! under_each_policy {
    ($($name:ident: $module:ident::$test:ident;)*) => {$(
        #[test]
        fn $name() {
            $module::$test::<nvheap::FocRedo>();
            $module::$test::<nvheap::FocStm>();
            $module::$test::<nvheap::FocUndo>();
            $module::$test::<nvheap::FofStm>();
            $module::$test::<nvheap::FofUndo>();
        }
    )*};
}
