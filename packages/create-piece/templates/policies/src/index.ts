export { __camel__, __camel__Norm, __camel__Top } from './__name__.ts';
